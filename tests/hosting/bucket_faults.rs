//! A bucket whose answers are broken, one kind at a time: what was verified stays, and nobody waits or reads for ever.

use crate::bucket::{Bucket, URL};
use crate::endless::{Answer, serve};
use crate::proxy::Fault;
use crate::random::seed;
use crate::registry::{KEYS, files, listed, verify};
use crate::support::{B10167, B10359, NOW, Run};

#[test]
fn every_answer_of_a_bucket_broken_leaves_what_was_verified_before() {
    let Some(bucket) = Bucket::new(seed()) else { return };
    let (site, world) = (&bucket.0, &bucket.0.world);
    site.run(&format!("publish {B10167} {KEYS} --to {URL} --now {NOW}")).ok();
    site.run(&format!("sync {URL} --to mirror --now {NOW}")).ok();
    site.run(&format!("publish {B10359} {KEYS} --registry work --to {URL} --now {NOW}")).ok();
    let before = files(&world.path("mirror"));
    for (fault, says) in [
        (Fault::Dropped, "after 4 retries"),
        (Fault::Cut, ""),
        (Fault::Status(500), "500 Internal Server Error"),
        (Fault::Status(304), "304 Not Modified"),
        (Fault::Status(403), "403 Forbidden"),
        (Fault::Status(404), "compare the address"),
        (Fault::Short, ""),
        (Fault::Long, ""),
        (Fault::Endless(200), ""),
        (Fault::Endless(500), ""),
        (Fault::Endless(403), ""),
        (Fault::Silent, "timed out"),
        (Fault::Slow(16), "too slowly"),
        (Fault::Changed, ""),
        (Fault::Redirected, ""),
    ] {
        site.proxy.plan(&[fault], 1000);
        for to in ["mirror", "fresh"] {
            let refused = site.run(&format!("sync {URL} --to {to} --now {NOW}"));
            println!(
                "{fault:?}: {}",
                refused.err.lines().find(|l| l.starts_with("error")).unwrap_or_default()
            );
            assert!(matches!(refused.exit, 1 | 4), "{fault:?}: {}{}", refused.out, refused.err);
            assert!(refused.err.contains(says), "{fault:?}: {}", refused.err);
        }
        assert_eq!(files(&world.path("mirror")), before, "{fault:?}");
        assert!(!world.path("fresh/snapshot/latest.note").exists(), "{fault:?}");
        // Listings and receipts are read by the client itself.
        let unpublished =
            site.run(&format!("renew --registry-key registry.key --registry work --to {URL} --now {NOW}"));
        assert!(matches!(unpublished.exit, 1 | 4), "{fault:?}: {}{}", unpublished.out, unpublished.err);
    }
    site.proxy.plan(&[], 0);
    for to in ["mirror", "fresh"] {
        site.run(&format!("sync {URL} --to {to} --now {NOW}")).ok();
        verify(world, to).ok();
        assert_eq!(listed(world, to).len(), 2);
    }
    site.run(&format!("verify {URL} --now {NOW}")).ok();
}

/// Somebody's server that speaks a little S3.
fn ask(answer: impl Fn(&str) -> Option<Answer> + Send + 'static, line: &str) -> (Run, usize) {
    let world = crate::support::World::new();
    let thief = serve(answer);
    let mut command = world.command();
    command.env("CAPGATE_PATIENCE", "2").env("AWS_REGION", "us-east-1").env("AWS_SKIP_SIGNATURE", "true");
    command.env("AWS_ENDPOINT", thief.url()).args(crate::support::words(line));
    (Run::of(&mut command), thief.requests())
}

#[test]
fn attack_a_listing_without_an_end_ends() {
    let page = "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated>\
                <NextContinuationToken>more</NextContinuationToken></ListBucketResult>";
    let list = |name: &str| name.contains("list-type=2").then(|| Answer::whole(page.as_bytes().to_vec()));
    let (verified, asked) = ask(list, &format!("verify s3://bucket/gpu --now {NOW}"));
    assert!(
        verified.exit == 4 && verified.out.contains("a listing of more than"),
        "{}{}",
        verified.out,
        verified.err
    );
    assert!((5000..5100).contains(&asked), "{asked} requests");
}

#[test]
fn attack_a_length_that_is_only_named_takes_no_memory() {
    let claim = |status| {
        move |_: &str| {
            Some(Answer(
                status,
                format!(
                    "Content-Length: {}\r\nETag: \"x\"\r\nLast-Modified: Tue, 01 Dec 2026 00:00:00 GMT",
                    1_u64 << 60
                ),
                vec![b'x'; 10],
            ))
        }
    };
    for status in ["200 OK", "403 Forbidden", "500 Internal Server Error"] {
        for line in ["verify s3://bucket/gpu", "sync s3://bucket/gpu --to mirror"] {
            let (refused, asked) = ask(claim(status), &format!("{line} --now {NOW}"));
            assert!(matches!(refused.exit, 1 | 4), "{status}: {}{}", refused.out, refused.err);
            assert!(asked < 40, "{asked} requests");
        }
    }
}
