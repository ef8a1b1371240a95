//! What keeps a repeated launch from making a second instance: the client token.
//!
//! A launch with the token of an earlier one answers what the earlier one did, if the two are the same. With other parameters it is
//! refused, and so it is when what the earlier one made has been terminated.

use super::answer::Refusal;
use super::calls::Request;
use super::instance::Instance;

/// AWS' limit.
const LONGEST: usize = 64;

/// The instances that an earlier launch with the same token made; none if there was no such launch, or no token.
pub(super) fn made_before<'a>(request: &Request, instances: &'a [Instance]) -> Result<Vec<&'a Instance>, Refusal> {
    let Some(token) = request.parameters.get("ClientToken") else { return Ok(Vec::new()) };
    if token.len() > LONGEST || !token.is_ascii() {
        return Err(Refusal::new("InvalidParameterValue", "a client token has at most 64 ASCII characters"));
    }
    let same: Vec<&Instance> =
        instances.iter().filter(|instance| instance.client_token.as_deref() == Some(token)).collect();
    if same.iter().any(|instance| instance.launch != request.parameters) {
        return Err(Refusal::new(
            "IdempotentParameterMismatch",
            "the request uses the same client token as a previous, but non-identical request",
        ));
    }
    if same.iter().any(|instance| instance.ended.is_some()) {
        return Err(Refusal::new(
            "IdempotentInstanceTerminated",
            "the request uses the same client token as a previous one whose instance has been terminated",
        ));
    }
    Ok(same)
}
