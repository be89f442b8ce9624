//! `index.d.ts` is generated from the operator table and committed; this says when it is stale.

use webnn_node::graph::typings::typings;

#[test]
fn index_d_ts_is_that_of_the_operator_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/index.d.ts");
    let expected = typings();
    if std::env::var_os("WEBNN_UPDATE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "index.d.ts is stale: run `WEBNN_UPDATE=1 cargo test --test typings` and commit the result");
}
