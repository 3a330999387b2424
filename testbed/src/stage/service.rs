//! What a Service does for several replicas: each connection goes to the next one that takes it.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::layout::Layout;

/// One address for several; it ends when dropped.
pub(super) struct Service(JoinHandle<()>);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Service {
    /// For the stage's extenders, where there are several.
    pub(super) fn of_extenders(layout: &Layout) -> anyhow::Result<Option<Self>> {
        let Some(address) = layout.extender_service() else {
            return Ok(None);
        };
        let replicas = 0..layout.extenders();
        let backends = replicas.map(|r| layout.extender_address(r)).collect();
        let listener = kit::listen(address).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Some(Self(tokio::spawn(serve(listener, backends)))))
    }
}

async fn serve(listener: TcpListener, backends: Vec<SocketAddr>) {
    let backends = Arc::new(backends);
    let mut turn = 0_usize;
    // A failing accept ends it; the test then fails for want of an extender.
    while let Ok((client, _)) = listener.accept().await {
        turn = turn.wrapping_add(1);
        tokio::spawn(connect(client, Arc::clone(&backends), turn));
    }
}

async fn connect(mut client: TcpStream, backends: Arc<Vec<SocketAddr>>, turn: usize) {
    let from_turn_on = backends.iter().cycle().skip(turn % backends.len().max(1));
    for backend in from_turn_on.take(backends.len()) {
        if let Ok(mut backend) = TcpStream::connect(backend).await {
            // Either side may break off; the other is then closed.
            drop(tokio::io::copy_bidirectional(&mut client, &mut backend).await);
            return;
        }
    }
}
