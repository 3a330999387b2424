//! The least exporter that writes its own text: it reads an answer of ours once, and from then on
//! writes the same series anew at each scrape, numbers formatted each time, labels copied.
//!
//! `floor-exporter ADDR FILE [kept]`; with `kept` the text is written once and handed out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use axum::{Router, body::Bytes, http::header, routing::get};

/// The type that Prometheus asks for.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

enum Line {
    Comment(Box<str>),
    /// Name and labels with the blank after them, and the value.
    Series(Box<str>, f64),
}

fn read(text: &str) -> Vec<Line> {
    let lines = text.lines().map(|line| match line.rsplit_once(' ') {
        Some((name, value)) if !line.starts_with('#') => {
            Line::Series(format!("{name} ").into(), value.parse().unwrap_or(f64::NAN))
        }
        _ => Line::Comment(line.into()),
    });
    lines.collect()
}

fn write(lines: &[Line], moved: u32, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room);
    for line in lines {
        match line {
            Line::Comment(text) => out.extend_from_slice(text.as_bytes()),
            Line::Series(name, value) => {
                out.extend_from_slice(name.as_bytes());
                number(&mut out, value + f64::from(moved));
            }
        }
        out.push(b'\n');
    }
    out
}

fn number(out: &mut Vec<u8>, value: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked: a whole number that i64 has"
    )]
    if value.fract() == 0.0 && value.abs() < 9e15 {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        out.extend_from_slice(zmij::Buffer::new().format(value).as_bytes());
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_default();
    let lines = read(&std::fs::read_to_string(args.next().unwrap_or_default())?);
    let kept = args.next().map(|_| Bytes::from(write(&lines, 0, 0)));
    let started = Instant::now();
    let room = Arc::new(AtomicUsize::new(0));
    let lines = Arc::new(lines);
    let scrape = move || {
        let body = kept.clone().unwrap_or_else(|| {
            // Values move with each second, as collections do.
            let moved = u32::try_from(started.elapsed().as_secs()).unwrap_or(0);
            let text = write(&lines, moved, room.load(Ordering::Relaxed));
            room.store(text.len() + 1024, Ordering::Relaxed);
            text.into()
        });
        async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], body) }
    };
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, Router::new().route("/metrics", get(scrape))).await
}
