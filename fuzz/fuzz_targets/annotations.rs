//! Plans on pods and inventories on nodes: what is read, is read the same when written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::annotation::{
    AnnotationError, MOST_INVENTORY_BYTES, MOST_PLAN_BYTES, read_inventory, read_plan,
    write_inventory, write_plan,
};

const EACH: usize = 256;

fn check<T: PartialEq + std::fmt::Debug>(
    text: &str,
    most: usize,
    read: impl Fn(&str) -> Result<T, AnnotationError>,
    write: impl Fn(&T) -> String,
) {
    match fuzz::within(text.len(), EACH, || read(text)) {
        Ok(value) => {
            let written = fuzz::within(text.len(), EACH, || write(&value));
            // What was left out may be written out.
            if written.len() <= most {
                assert_eq!(read(&written).as_ref(), Ok(&value), "{written}");
            }
        }
        Err(error) => assert!(error.to_string().len() < 1024, "{error}"),
    }
}

fuzz_target!(|text: &str| {
    check(text, MOST_PLAN_BYTES, read_plan, write_plan);
    check(text, MOST_INVENTORY_BYTES, read_inventory, write_inventory);
});
