//! The control server: faults on command, and what the Runtime thinks.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, Query, State},
    http::StatusCode,
    routing::{get, post},
};
use model::card::Card;
use serde::Serialize;

use crate::{fault::Fault, shared::Shared, store::Entry};

/// `GET /book`.
#[derive(Debug, Serialize)]
struct Book {
    allocations: Vec<Entry>,
}

/// `GET /cards`.
#[derive(Debug, Serialize)]
struct Node {
    generation: u64,
    feature: String,
    cards: Vec<Card>,
}

/// Everything is in the path and the query.
const MOST_BODY: usize = 1024;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/faults/{name}", post(fault))
        .route("/book", get(book))
        .route("/cards", get(cards))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(shared)
}

async fn fault(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Query(parameters): Query<BTreeMap<String, String>>,
) -> Result<String, (StatusCode, String)> {
    Fault::parse(&name, &parameters)
        .and_then(|fault| shared.fault(&fault))
        .map(|()| "done\n".to_owned())
        .map_err(|why| (StatusCode::BAD_REQUEST, format!("{why}\n")))
}

async fn book(State(shared): State<Arc<Shared>>) -> Json<Book> {
    Json(Book {
        allocations: shared.with(|state| state.book().allocations().map(Entry::from).collect()),
    })
}

async fn cards(State(shared): State<Arc<Shared>>) -> Json<Node> {
    Json(shared.with(|state| Node {
        generation: state.generation(),
        feature: format!("{:?}", state.status().phase).to_lowercase(),
        cards: state.cards().map(|c| c.card.clone()).collect(),
    }))
}
