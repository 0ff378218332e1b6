//! The live page of `serve`: one file, which asks the server that it came from and no other.

/// The page.
pub const PAGE: &str = include_str!("../dist/live.html");

/// The page may run its own script, named by hash, and request its own server. The header repeats
/// the policy in the page, and keeps the page out of frames.
pub fn content_security_policy() -> String {
    let start = "http-equiv=\"Content-Security-Policy\" content=\"";
    let policy = PAGE.split_once(start).and_then(|(_, rest)| rest.split_once('"'));
    // Without a policy of its own, a page may do nothing.
    let policy = policy.map_or("default-src 'none'", |(policy, _)| policy);
    format!("{policy}; frame-ancestors 'none'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_runs_its_own_script_alone_and_calls_its_own_address_alone() {
        let policy = content_security_policy();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("connect-src 'self';"), "{policy}");
    }
}
