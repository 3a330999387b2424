//! Plain HTTP to the stage's own addresses.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;

/// An answer past this is an error.
const MOST_BYTES: usize = 64 << 20;

/// The body of a GET that is answered with 200.
pub async fn get(url: &str) -> anyhow::Result<String> {
    call(Method::GET, url, None).await
}

/// The body of a POST without a body that is answered with 200.
pub async fn post(url: &str) -> anyhow::Result<String> {
    call(Method::POST, url, None).await
}

/// The body of a POST of a JSON text that is answered with 200.
pub async fn post_json(url: &str, body: String) -> anyhow::Result<String> {
    call(Method::POST, url, Some(body)).await
}

async fn call(method: Method, url: &str, json: Option<String>) -> anyhow::Result<String> {
    let uri: Uri = url
        .parse()
        .with_context(|| format!("{url:?} is not a URL"))?;
    let authority = uri
        .authority()
        .with_context(|| format!("{url:?} names no host"))?
        .clone();
    let exchange = async {
        let stream = tokio::net::TcpStream::connect(authority.as_str()).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let path = uri
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, authority.as_str())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::from(json.unwrap_or_default()))?;
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MOST_BYTES)
                .collect()
                .await;
            let body = body.map_err(|e| anyhow::anyhow!(e))?.to_bytes();
            let text = String::from_utf8_lossy(&body).into_owned();
            if !status.is_success() {
                bail!("{status}: {text}");
            }
            Ok(text)
        };
        tokio::pin!(connection);
        tokio::select! {
            biased;
            answer = answer => answer,
            end = &mut connection => bail!("the connection ended before the answer: {end:?}"),
        }
    };
    tokio::time::timeout(Duration::from_secs(10), exchange)
        .await
        .with_context(|| format!("{url} did not answer within 10 s"))?
        .with_context(|| url.to_owned())
}
