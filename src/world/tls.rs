//! What every encrypted connection of this command agrees on.

use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// Trusts Mozilla's authorities, and those that are given beside them.
pub fn config(own: Vec<Certificate<'static>>) -> TlsConfig {
    let known = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| Certificate::from_der(der));
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::from(known.chain(own)))
        .build()
}
