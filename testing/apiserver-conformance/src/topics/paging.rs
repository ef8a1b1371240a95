//! Lists in pages.

use serde_json::{Value, json};

use crate::fixture::{Fixture, names, same};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    pages_together_are_the_whole_list_in_order,
    a_page_says_how_much_is_left,
    all_pages_show_one_moment,
    a_list_that_fits_one_page_has_no_continuation,
    a_continuation_that_nobody_gave_out_is_a_bad_request,
    a_list_is_at_least_as_new_as_its_objects,
];

/// Everything here carries a label, so that objects of the server's own do not show.
const OURS: &str = "labelSelector=ours";

async fn five(s: &Fixture) -> CaseResult {
    for name in ["e", "b", "d", "a", "c"] {
        s.config_map(name, &json!({"ours": ""})).await?;
    }
    Ok(())
}

async fn page(s: &Fixture, continued: &Value) -> Result<Value, Difference> {
    let token = continued.as_str().map(|t| format!("&continue={t}")).unwrap_or_default();
    s.get(&s.core(&format!("configmaps?{OURS}&limit=2{token}"))).await?.succeeds()
}

/// Shows SRV-3.
async fn pages_together_are_the_whole_list_in_order(s: Fixture) -> CaseResult {
    five(&s).await?;
    let first = page(&s, &Value::Null).await?;
    same("first page", &names(&first), &json!(["a", "b"]))?;
    let second = page(&s, &first["metadata"]["continue"]).await?;
    same("second page", &names(&second), &json!(["c", "d"]))?;
    let third = page(&s, &second["metadata"]["continue"]).await?;
    same("third page", &names(&third), &json!(["e"]))?;
    ensure!(third["metadata"]["continue"].as_str().unwrap_or_default().is_empty(), "the last page is continued");
    Ok(())
}

async fn a_page_says_how_much_is_left(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object"})).await?;
    for name in ["a", "b", "c"] {
        s.make_widget(name, &json!({})).await?;
    }
    // Only without selectors: with them the server does not know.
    let first = s.get(&format!("{}?limit=2", s.widget(""))).await?.succeeds()?;
    same("remainingItemCount", &first["metadata"]["remainingItemCount"], &json!(1))?;
    let selected = s.get(&format!("{}?limit=2&labelSelector=%21x", s.widget(""))).await?.succeeds()?;
    ensure!(selected["metadata"].get("remainingItemCount").is_none(), "a selected page claims to know what is left");
    Ok(())
}

async fn all_pages_show_one_moment(s: Fixture) -> CaseResult {
    five(&s).await?;
    let first = page(&s, &Value::Null).await?;
    s.config_map("bb", &json!({"ours": ""})).await?;
    s.config_map("cc", &json!({"ours": ""})).await?;
    s.delete(&s.core("configmaps/c"), None).await?.succeeds()?;
    let second = page(&s, &first["metadata"]["continue"]).await?;
    same("second page", &names(&second), &json!(["c", "d"]))?;
    let versions = [&first, &second].map(|list| list["metadata"]["resourceVersion"].clone());
    same("resourceVersion", &versions[1], &versions[0])
}

async fn a_list_that_fits_one_page_has_no_continuation(s: Fixture) -> CaseResult {
    five(&s).await?;
    let list = s.get(&s.core(&format!("configmaps?{OURS}&limit=9"))).await?.succeeds()?;
    ensure!(list["metadata"]["continue"].as_str().unwrap_or_default().is_empty(), "a complete list is continued");
    ensure!(list["metadata"].get("remainingItemCount").is_none(), "a complete list has more left");
    same("names", &names(&list), &json!(["a", "b", "c", "d", "e"]))
}

async fn a_continuation_that_nobody_gave_out_is_a_bad_request(s: Fixture) -> CaseResult {
    s.get(&s.core("configmaps?limit=2&continue=nonsense")).await?.fails(400, "BadRequest")?;
    Ok(())
}

async fn a_list_is_at_least_as_new_as_its_objects(s: Fixture) -> CaseResult {
    five(&s).await?;
    let list = s.get(&s.core(&format!("configmaps?{OURS}"))).await?.succeeds()?;
    same("kind", &list["kind"], &json!("ConfigMapList"))?;
    let number = |v: &Value| v["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok());
    let (own, items) = (number(&list), list["items"].as_array().into_iter().flatten().map(number).max().flatten());
    ensure!(own >= items && items.is_some(), "the list is at {own:?}, its newest object at {items:?}");
    Ok(())
}
