//! Kubelet's `:authority`, made one that a Rust HTTP/2 server takes.
//!
//! Over a unix socket grpc-go sends the socket's path there, percent-encoded in later versions.
//! Kubelet's device manager overrides that from 1.26 on, its plugin watcher in no version so
//! far. `h2` resets such a stream as malformed, and has no setting to let it pass.
//!
//! So each `/` and `%` of an `:authority` is made a `-` as the bytes come in. All three are one
//! byte in plain and six bits in HPACK's Huffman code (RFC 7541, appendix B). Hence the frame
//! keeps its length, and the entry of the dynamic table that client and server both keep its
//! size: nothing of the table needs to be known here, and later requests that only name the
//! entry get what the server has stored.

use std::{
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// `PRI * HTTP/2.0`, two line ends, `SM`, two line ends.
const PREFACE_BYTES: usize = 24;
/// Length in 3 bytes, type, flags, stream.
const HEAD_BYTES: usize = 9;
/// A longer one the server refuses by its head alone.
const MOST_FRAME_BYTES: usize = 16 << 10;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

/// Index of `:authority` in HPACK's static table.
const AUTHORITY: usize = 1;

/// A server's connection with kubelet. Holds back at most one HEADERS frame.
pub struct PathAuthority<T> {
    inner: T,
    held: BytesMut,
    /// So many of the held bytes may be given on.
    clear: usize,
    /// So many bytes behind these may be given on unseen.
    unseen: usize,
}

impl<T> PathAuthority<T> {
    /// At the connection's start.
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            held: BytesMut::new(),
            clear: 0,
            unseen: PREFACE_BYTES,
        }
    }

    /// Clears all of the held bytes but the beginning of a frame that has to be seen whole.
    fn look(&mut self) {
        loop {
            let step = self.unseen.min(self.held.len() - self.clear);
            self.clear += step;
            self.unseen -= step;
            let rest = self.held.get_mut(self.clear..).unwrap_or_default();
            let Some((head, payload)) = rest.split_first_chunk_mut::<HEAD_BYTES>() else {
                return;
            };
            let [high, middle, low, kind, flags, ..] = *head;
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind == HEADERS && length <= MOST_FRAME_BYTES {
                let Some(payload) = payload.get_mut(..length) else {
                    return;
                };
                mend_frame(flags, payload);
            }
            self.unseen = HEAD_BYTES + length;
        }
    }
}

/// Padding at the end is zeros, and these read as fields without a name.
fn mend_frame(flags: u8, payload: &mut [u8]) {
    let mut before = 0;
    if flags & PADDED != 0 {
        before += 1;
    }
    if flags & PRIORITY != 0 {
        before += 5;
    }
    if let Some(block) = payload.get_mut(before..) {
        // What can't be read to its end, the server will refuse or another frame goes on with.
        let _ = mend_block(block);
    }
}

/// The fields' forms are those of RFC 7541, section 6.
fn mend_block(block: &mut [u8]) -> Option<()> {
    let mut block = Block(block);
    while let Some(first) = block.0.first() {
        let (prefix_bits, is_literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            // A new size of the table.
            0x20.. => (5, false),
            _ => (4, true),
        };
        let index = block.integer(prefix_bits)?;
        if !is_literal {
            continue;
        }
        if index == 0 {
            block.string()?;
        }
        let (is_huffman, value) = block.string()?;
        match (index, is_huffman) {
            (AUTHORITY, true) => mend_huffman(value),
            (AUTHORITY, false) => mend_plain(value),
            _ => {}
        }
    }
    Some(())
}

/// What is left of a header block.
struct Block<'a>(&'a mut [u8]);

impl<'a> Block<'a> {
    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = mem::take(&mut self.0).split_first_mut()?;
        self.0 = rest;
        Some(usize::from(*first))
    }

    /// Section 5.1. None of a frame's integers is above its length or the size of a table.
    fn integer(&mut self, prefix_bits: u32) -> Option<usize> {
        let most = (1 << prefix_bits) - 1;
        let mut value = self.byte()? & most;
        if value < most {
            return Some(value);
        }
        for shift in [0, 7, 14] {
            let byte = self.byte()?;
            value += (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Section 5.2: whether it is in Huffman code, and its bytes.
    fn string(&mut self) -> Option<(bool, &'a mut [u8])> {
        let is_huffman = *self.0.first()? >= 0x80;
        let length = self.integer(7)?;
        let (text, rest) = mem::take(&mut self.0).split_at_mut_checked(length)?;
        self.0 = rest;
        Some((is_huffman, text))
    }
}

fn mend_plain(text: &mut [u8]) {
    for byte in text.iter_mut().filter(|b| matches!(b, b'/' | b'%')) {
        *byte = b'-';
    }
}

fn mend_huffman(text: &mut [u8]) {
    const SLASH: u32 = 0b01_1000;
    const PERCENT: u32 = 0b01_0101;
    const DASH: u32 = 0b01_0110;
    let mut bit = 0;
    loop {
        let (byte, offset) = (bit / 8, bit % 8);
        // Past the end there is nothing but ones, as in the last byte's unused bits.
        let at = |index: usize| text.get(byte + index).copied().unwrap_or(0xff);
        let window = u32::from_be_bytes([at(0), at(1), at(2), at(3)]) << offset;
        let Some(length) = code_length(window) else {
            return;
        };
        let code = window >> 26;
        if length == 6 && (code == SLASH || code == PERCENT) {
            let [_, _, high, low] = ((code ^ DASH) << 10 >> offset).to_be_bytes();
            for (byte, change) in text.iter_mut().skip(byte).zip([high, low]) {
                *byte ^= change;
            }
        }
        bit += length;
    }
}

/// How many bits the code at the window's left end has. The code is canonical: the shorter one
/// is the smaller. Longer ones are of no character of an authority, and end the text.
fn code_length(window: u32) -> Option<usize> {
    const BELOW: [(u32, usize); 10] = [
        (0x5000_0000, 5),
        (0xb800_0000, 6),
        (0xf800_0000, 7),
        (0xfe00_0000, 8),
        (0xff40_0000, 10),
        (0xffa0_0000, 11),
        (0xffc0_0000, 12),
        (0xfff0_0000, 13),
        (0xfff8_0000, 14),
        (0xfffe_0000, 15),
    ];
    BELOW
        .iter()
        .find(|(limit, _)| window < *limit)
        .map(|(_, length)| *length)
}

impl<T: AsyncRead + Unpin> AsyncRead for PathAuthority<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.clear == 0 {
            let mut chunk = [0; 8 << 10];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut chunk))?;
            this.held.extend_from_slice(chunk.filled());
            this.look();
            if chunk.filled().is_empty() {
                // The end, maybe within a frame.
                this.clear = this.held.len();
                break;
            }
        }
        let given = this.held.split_to(this.clear.min(out.remaining()));
        this.clear -= given.len();
        out.put_slice(&given);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PathAuthority<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<T> Connected for PathAuthority<T> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
