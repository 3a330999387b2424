//! HTTP/1.1 callers that keep their connections. Bare, so that the load costs little beside what
//! it measures.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::timing::Calls;

/// One kept connection.
pub(crate) struct Caller {
    stream: TcpStream,
    /// The answer read last: head and body.
    buffer: Vec<u8>,
    body_at: usize,
}

/// A request's bytes.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

impl Caller {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            body_at: 0,
        })
    }

    /// Sends a request; the answer's status and body. An answer must say its length.
    pub(crate) async fn call(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head_ends = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        self.body_at = head_ends + 4;
        let head = self.buffer.get(..head_ends).unwrap_or_default();
        let head = std::str::from_utf8(head)?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.context("no status")?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let ends = self.body_at + length.unwrap_or(0_usize);
        self.buffer.reserve(ends.saturating_sub(self.buffer.len()));
        while self.buffer.len() < ends {
            self.more().await?;
        }
        Ok((status, self.buffer.get(self.body_at..).unwrap_or_default()))
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the connection is closed");
        }
        Ok(())
    }
}

/// One call on a connection of its own.
pub(crate) async fn once(address: SocketAddr, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut caller = Caller::connect(address).await?;
    let (status, body) = caller.call(request).await?;
    Ok((status, body.to_vec()))
}

/// A request, and the answer that it must get.
pub(crate) struct Exchange<'r> {
    request: &'r [u8],
    expected: Vec<u8>,
}

/// Takes what each request is answered now for what it must be answered from here on.
pub(crate) async fn expect(
    address: SocketAddr,
    requests: &[Vec<u8>],
) -> anyhow::Result<Vec<Exchange<'_>>> {
    let mut exchanges = Vec::new();
    for request in requests {
        let (status, expected) = once(address, request).await?;
        ensure!(status == 200, "{status}");
        exchanges.push(Exchange { request, expected });
    }
    Ok(exchanges)
}

/// Makes `count` calls one after the other, round and round through the exchanges.
pub(crate) async fn calls(
    address: SocketAddr,
    exchanges: &[Exchange<'_>],
    count: usize,
) -> anyhow::Result<Calls> {
    let mut caller = Caller::connect(address).await?;
    let mut calls = Calls::default();
    for Exchange { request, expected } in exchanges.iter().cycle().take(count) {
        let start = Instant::now();
        let (status, body) = caller.call(request).await?;
        calls.took(start.elapsed());
        ensure!(
            status == 200 && body == expected,
            "another answer: {status}"
        );
    }
    Ok(calls)
}
