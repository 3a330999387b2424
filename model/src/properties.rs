//! What always holds, whatever is asked in whatever order.

mod books;
mod kubelet;
mod plans;
mod some;
