//! Two publishers and many clients at once: `CAPGATE_PUBLISHES` publications in all, `CAPGATE_CLIENTS` clients.

use std::sync::Mutex;

use crate::nginx;
use crate::proxy::Proxy;
use crate::random::seed;
use crate::site::Site;
use crate::support::{NOW, World};

#[test]
fn behind_nginx_nothing_is_lost_and_nobody_holds_a_broken_state() {
    let Some(program) = nginx::program() else { return };
    let world = World::new();
    world.run(&format!("renew --registry-key registry.key --to public --now {NOW}")).ok();
    let server = nginx::serve(&program, &world.path("public"), &world.path("nginx"), None);
    let proxy = Proxy::start(server.port, seed());
    let from = format!("http://127.0.0.1:{}", proxy.port);
    let site = Site {
        world,
        server: Mutex::new(server),
        proxy,
        to: "public".to_owned(),
        from,
        settings: Vec::new(),
        per_mille: 60,
    };
    site.holds("a folder behind nginx");
}

#[test]
#[cfg(feature = "cloud")]
fn in_a_bucket_nothing_is_lost_and_nobody_holds_a_broken_state() {
    let Some(site) = crate::bucket::Bucket::new(seed()) else { return };
    site.0.run(&format!("renew --registry-key registry.key --to {} --now {NOW}", site.0.to)).ok();
    site.0.holds("a bucket of an S3 server");
}
