//! Kubelets whose `:authority` is the socket's path, by the bytes that they send, and those
//! without PodResources.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::*;

/// Header blocks as recorded from the client of Kubernetes' own contract with grpc-go 1.27.1, the
/// one of Kubernetes 1.20: `GetDevicePluginOptions` twice, `ListAndWatch`, and `PreStartContainer`
/// twice with a deadline. From the second on, `:authority` is an index in the dynamic table.
const KUBERNETES_1_20: [&str; 5] = [
    "838645a063b8632a4615ef97b9885d745b31aa6311537cbdcc42eba2d98d56aad263d48f41a963b8ec628346c75b632d054b1217b98855aba2d98d5218a3a2d3576ac43d8559f1942e0d98d741c9d75f8b1d75d0620d263d4c4d65647a8a9acac8b4c7602b89d5c340027465864d833505b11f",
    "8386c2c1c0bfbe",
    "8386459963b8632a4615ef97b9885d745b31aa633990986a9390d249ffc2c1c0bf",
    "8386459c63b8632a4615ef97b9885d745b31aa635d85dc91d89bc7a9233545b3c3c2c1c040899acac8b24d494f6a7f8613efbefbed5b",
    "8386bfc4c3c2c17e8613efbefbcedb",
];

/// The same of 1.25, with grpc-go 1.47.0.
const KUBERNETES_1_25: [&str; 5] = [
    "838645a063b8632a4615ef97b9885d745b31aa6311537cbdcc42eba2d98d56aad263d48f41a963b8ec628346c75b632d054b1217b98855aba2d98d5218a3a2d3576ac43d8559f1942e0d98d741c9d75f8b1d75d0620d263d4c4d65647a8a9acac8b4c7602bb4eae040027465864d833505b11f",
    "8386c2c1c0bfbe",
    "8386459963b8632a4615ef97b9885d745b31aa633990986a9390d249ffc2c1c0bf",
    "8386459c63b8632a4615ef97b9885d745b31aa635d85dc91d89bc7a9233545b3c3c2c1c040899acac8b24d494f6a7f8613efbefbe0b7",
    "8386bfc4c3c2c17e8613efbefbee5b",
];

/// Its `:authority` is `localhost`: 1.36, with grpc-go 1.79.3.
const KUBERNETES_1_36: [&str; 5] = [
    "838645a063b8632a4615ef97b9885d745b31aa6311537cbdcc42eba2d98d56aad263d48f4186a0e41d139d095f8b1d75d0620d263d4c4d65647a8b9acac8b4c7602bbafaecff40027465864d833505b11f",
    "8386c2c1c0bfbe",
    "8386459963b8632a4615ef97b9885d745b31aa633990986a9390d249ffc2c1c0bf",
    "8386459c63b8632a4615ef97b9885d745b31aa635d85dc91d89bc7a9233545b3c3c2c1c040899acac8b24d494f6a7f8613efbefbecdb",
    "8386bfc4c3c2c17e8613efbefbcd5b",
];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Sends these requests, each with an empty message, and waits for the answers: a list of the
/// third, the ends of the others. Any other ending fails.
async fn call_all(socket: &std::path::Path, blocks: [&str; 5]) {
    let mut connection = UnixStream::connect(socket).await.unwrap();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[]));
    let streams = [1, 3, 5, 7, 9];
    for (stream, block) in streams.into_iter().zip(blocks) {
        sent.extend(frame(HEADERS, END_HEADERS, stream, &bytes(block)));
        sent.extend(frame(DATA, END_STREAM, stream, &[0; 5]));
    }
    connection.write_all(&sent).await.unwrap();
    let mut wanted = vec![1, 3, 5, 7, 9];
    while !wanted.is_empty() {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.unwrap();
        let [high, middle, low, kind, flags, .., stream] = head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        connection.read_exact(&mut payload).await.unwrap();
        match kind {
            DATA if stream == 5 => wanted.retain(|s| *s != 5),
            HEADERS if flags & END_STREAM != 0 => wanted.retain(|s| *s != stream),
            3 | 7 => panic!("stream {stream} or all were ended: {payload:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn each_kubelet_s_calls_are_answered_by_the_bytes_that_it_sends() {
    let stage = Stage::new().await;
    let _sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    let socket = stage.world.socket(GPU);
    for blocks in [KUBERNETES_1_20, KUBERNETES_1_25, KUBERNETES_1_36] {
        let calls = call_all(&socket, blocks);
        tokio::time::timeout(std::time::Duration::from_secs(20), calls)
            .await
            .expect("all are answered");
    }
    stage.end(plugin).await;
}

/// Before 1.20 there is no v1 of it; with its feature gate off there is no socket. `Get`, which
/// came with 1.27, is asked for nowhere: the kubelet of all these tests has none.
#[tokio::test]
async fn without_pod_resources_the_pods_alone_tell_whose_devices_are_asked_for() {
    for has_socket in [true, false] {
        let stage = Stage::new().await;
        let sim = stage.runtime();
        stage.world.lock().no_pod_resources = true;
        let _kubelet = stage.world.start_kubelet();
        if !has_socket {
            std::fs::remove_file(stage.world.pod_resources()).unwrap();
        }
        let plugin = stage.plugin().await;
        stage.ready(&plugin).await;
        let far = plan(&[share("ppu-5", 50, 24)]);
        let limits: &[(&str, u64)] = &[(CORE, 50), (MEMORY, 24)];
        for (name, assigned) in [("planned", Some(&far)), ("unplanned", None)] {
            let pod = pod(name, limits, assigned);
            stage.world.admit(pod).await.unwrap();
        }
        let book = granted(&sim);
        let names: Vec<&str> = book.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(names, ["uid-planned/main", "uid-unplanned/main"]);
        assert_eq!(book[0].1, [share("ppu-5", 50, 24)]);
        stage.world.delete("planned");
        until("released", || granted(&sim).len() == 1).await;
        stage.end(plugin).await;
    }
}
