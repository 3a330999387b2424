use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// What grpc-go 1.27 and 1.47, of Kubernetes 1.20 and 1.25, send for
/// `/var/lib/kubelet/device-plugins/lj-gpu-core-9ae16a3b.sock`.
const PATH: &str =
    "63b8ec628346c75b632d054b1217b98855aba2d98d5218a3a2d3576ac43d8559f1942e0d98d741c9d7";
/// The same with `-` for each `/`, by grpc-go's encoder.
const MENDED_PATH: &str =
    "5bb8ec5a8346b75b632d054ad217b98855aba2d98d5216a3a2d3576ac43d8559f1942e0d98d741c9d7";
/// What 1.79, of Kubernetes 1.36, sends for that socket in `plugins_registry`: with `%2F`.
const ESCAPED: &str = "54587b8ec545868346a8b0f5b632d054aa2c35d16cc6a91158598c84d9e95161a3a2d3576ac43d8559f1942e0d98d741c9d7";
/// The same with `-` for each `%`.
const MENDED_ESCAPED: &str = "58587b8ec585868346b0b0f5b632d054ac2c35d16cc6a91158598c84d9e96161a3a2d3576ac43d8559f1942e0d98d741c9d7";
/// `` !"#$&'()*+,:;<=>?@[]^_`{|}~/ X% ``
const RARE: &str =
    "fe3f9ffaffcfc7fafebfbf9ff7f573efffe41ff7fe7febff7ffcfff22fffbfffbfe7ffbffd614fc57f";
/// The same with `-` for `/` and for `%`.
const MENDED_RARE: &str =
    "fe3f9ffaffcfc7fafebfbf9ff7f573efffe41ff7fe7febff7ffcfff22fffbfffbfe7ffbffd594fc5bf";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
    frame.extend_from_slice(payload);
    frame
}

/// A header block with an `:authority` in one of HPACK's forms and things around it, some of
/// which hold a `/` that is to stay.
fn block(form: u8, is_huffman: bool, authority: &[u8]) -> Vec<u8> {
    // A new table size, `:method POST`, `:path /a/b%` in plain.
    let mut block = bytes("3fe11f830405");
    block.extend_from_slice(b"/a/b%");
    block.push(form);
    let length = u8::try_from(authority.len()).unwrap();
    assert!(length < 0x7f);
    block.push(if is_huffman { length | 0x80 } else { length });
    block.extend_from_slice(authority);
    // A field of a name of its own.
    block.extend_from_slice(b"\x40\x03x-y\x02/%\xbe");
    block
}

async fn read(sent: &[u8], chunk: usize) -> Vec<u8> {
    let (mut client, server) = tokio::io::duplex(chunk);
    let mut server = PathAuthority::new(server);
    let mut got = Vec::new();
    let write = async {
        client.write_all(sent).await.unwrap();
        drop(client);
    };
    let ((), read) = tokio::join!(write, server.read_to_end(&mut got));
    read.unwrap();
    got
}

fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    all.extend(frames.concat());
    all
}

#[tokio::test]
async fn every_form_of_an_authority_is_mended_however_it_comes_in() {
    let pairs = [
        (true, bytes(PATH), bytes(MENDED_PATH)),
        (true, bytes(ESCAPED), bytes(MENDED_ESCAPED)),
        (true, bytes(RARE), bytes(MENDED_RARE)),
        (false, b"/a%2Fb.sock".to_vec(), b"-a-2Fb.sock".to_vec()),
        (false, Vec::new(), Vec::new()),
    ];
    for (is_huffman, was, is) in pairs {
        // With, without, and never to be put into the table.
        for form in [0x41, 0x01, 0x11] {
            for (flags, before, after) in [
                (0x04, &[][..], &[][..]),
                (0x24, &[0x80, 0, 0, 3, 0x41], &[]),
                (0x2c, &[9, 0x80, 0, 0, 3, 0x41], &[0; 9]),
            ] {
                let with = |authority: &[u8]| {
                    let block = block(form, is_huffman, authority);
                    let headers = frame(HEADERS, flags, &[before, &block, after].concat());
                    // A frame of another type is not looked into.
                    let data = frame(0, 1, &block);
                    connection(&[frame(4, 0, &[]), headers.clone(), data, headers])
                };
                let mut expected = with(&is);
                let data = block(form, is_huffman, &was);
                let place = expected.len() - (HEAD_BYTES + before.len() + data.len() + after.len());
                expected[place - data.len()..place].copy_from_slice(&data);
                for chunk in [1, 7, 64, 1 << 16] {
                    assert_eq!(
                        read(&with(&was), chunk).await,
                        expected,
                        "{form} {flags} {chunk}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_cut_off_comes_through_as_it_is() {
    let whole = connection(&[frame(HEADERS, 4, &block(0x41, true, &bytes(PATH)))]);
    for end in 0..whole.len() {
        assert_eq!(read(&whole[..end], 16).await, whole[..end], "{end}");
    }
}

#[tokio::test]
async fn no_more_than_a_frame_is_held_back() {
    let (mut client, server) = tokio::io::duplex(1 << 16);
    let mut server = PathAuthority::new(server);
    let mut headers = connection(&[]);
    // Longer than any that the server takes.
    headers.extend([0, 0x40, 1, HEADERS, 4, 0, 0, 0, 1, 0x41]);
    client.write_all(&headers).await.unwrap();
    let mut got = vec![0; headers.len()];
    server.read_exact(&mut got).await.unwrap();
    assert_eq!(got, headers);

    let (mut client, server) = tokio::io::duplex(1 << 16);
    let mut server = PathAuthority::new(server);
    let mut headers = connection(&[]);
    headers.extend([0, 0x40, 0, HEADERS, 4, 0, 0, 0, 1]);
    headers.resize(headers.len() + MOST_FRAME_BYTES, 0);
    client.write_all(&headers).await.unwrap();
    let mut got = vec![0; headers.len()];
    server.read_exact(&mut got).await.unwrap();
    assert!(server.held.is_empty());
}

proptest! {
    /// Whatever comes, as much goes on, and only in what may be an `:authority`.
    #[test]
    fn any_bytes_keep_their_number(
        payloads in prop::collection::vec((0u8..3, any::<u8>(), prop::collection::vec(any::<u8>(), 0..80)), 0..6),
        chunk in 1usize..99,
    ) {
        let frames: Vec<_> = payloads.iter().map(|(k, f, p)| frame(*k, *f, p)).collect();
        let sent = connection(&frames);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let got = runtime.block_on(read(&sent, chunk));
        prop_assert_eq!(got.len(), sent.len());
        let mut at = PREFACE_BYTES;
        for frame in frames {
            let end = at + frame.len();
            if frame[3] != HEADERS {
                prop_assert_eq!(&got[at..end], &sent[at..end]);
            }
            prop_assert_eq!(&got[at..at + HEAD_BYTES], &sent[at..at + HEAD_BYTES]);
            at = end;
        }
    }
}
