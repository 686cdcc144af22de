//! How an object store is reached: its address, credentials, and when a connection may be unencrypted.

use std::net::IpAddr;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::Certificate;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::bounded::Bounded;
use crate::exit::Failure;
use crate::world::file;
use crate::world::folder::is_name;
use crate::world::remote::{Limits, Options, unusable_authorities};

/// Where the registry is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    service: Service,
    bucket: String,
    pub(super) prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    S3,
    Google,
    Azure,
}

impl Address {
    /// Reads `s3://BUCKET/PREFIX` and its like; the prefix may be empty.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let service = match scheme {
            "s3" => Service::S3,
            "gs" => Service::Google,
            "az" => Service::Azure,
            _ => return Err("begins with none of s3://, gs:// and az://".to_owned()),
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        if bucket.is_empty() || !bucket.bytes().all(good) {
            return Err(format!("names the bucket `{bucket}`, which no bucket is called"));
        }
        let prefix = prefix.trim_end_matches('/');
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._/".contains(&b);
        let is_good = prefix.is_empty() || (is_name(prefix) && prefix.bytes().all(plain));
        if !is_good {
            return Err(format!(
                "names the prefix `{prefix}`; letters, digits, `-`, `.` and `_` are taken, and no hidden part"
            ));
        }
        Ok(Self { service, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

/// A client for that bucket.
pub(super) fn objects(
    address: &Address,
    settings: impl IntoIterator<Item = (String, String)>,
    options: &Options,
) -> Result<Box<dyn ObjectStore>, Failure> {
    // The client takes the process' provider; a second installation changes nothing and is no error here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client(options)?;
    let retry = retry(&options.limits);
    let unusable = |e: object_store::Error| {
        Failure::failed(format!("the bucket `{}` cannot be used: {e}", address.bucket))
    };
    Ok(match address.service {
        Service::S3 => Box::new(s3(address, settings, client, retry, options)?.build().map_err(unusable)?),
        Service::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&address.bucket);
            Box::new(
                builder
                    .with_client_options(client)
                    .with_retry(retry)
                    .with_http_connector(Bounded { limits: options.limits })
                    .build()
                    .map_err(unusable)?,
            )
        }
        Service::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name(&address.bucket);
            Box::new(
                builder
                    .with_client_options(client)
                    .with_retry(retry)
                    .with_http_connector(Bounded { limits: options.limits })
                    .build()
                    .map_err(unusable)?,
            )
        }
    })
}

fn s3(
    address: &Address,
    settings: impl IntoIterator<Item = (String, String)>,
    client: ClientOptions,
    retry: RetryConfig,
    options: &Options,
) -> Result<AmazonS3Builder, Failure> {
    let mut builder = AmazonS3Builder::new()
        .with_client_options(client)
        .with_retry(retry)
        .with_http_connector(Bounded { limits: options.limits });
    for (name, value) in settings {
        let known = name.starts_with("AWS_").then(|| name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>());
        match known {
            // How answers are bounded, and whether certificates are checked, is not for the environment to say.
            Some(Ok(AmazonS3ConfigKey::Client(_))) | Some(Err(_)) | None => {}
            Some(Ok(key)) => builder = builder.with_config(key, value),
        }
    }
    let mut unencrypted = false;
    for key in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
        let Some(endpoint) = builder.get_config_value(&key) else { continue };
        match endpoint.strip_prefix("http://") {
            Some(rest) if !is_loopback(rest) => {
                return Err(Failure::usage(format!(
                    "the endpoint `{endpoint}` is not encrypted, which is for this machine's own addresses alone"
                ))
                .help("give an endpoint that begins with https://"));
            }
            found => unencrypted |= found.is_some(),
        }
    }
    // These stand whatever the environment says: a registry without conditional puts forks.
    Ok(builder
        .with_bucket_name(&address.bucket)
        .with_allow_http(unencrypted)
        .with_conditional_put(S3ConditionalPut::ETagMatch))
}

fn client(options: &Options) -> Result<ClientOptions, Failure> {
    let limits = options.limits;
    let mut client = ClientOptions::new()
        .with_connect_timeout(limits.connect)
        .with_read_timeout(limits.pace.window.max(limits.headers))
        // Large objects take their time; how slow they may be is judged as they come.
        .with_timeout_disabled();
    if let Some(path) = &options.ca_file {
        let pem = file::read(path, 1 << 20).map_err(|e| unusable_authorities(options, &e))?;
        let found = Certificate::from_pem_bundle(&pem)
            .map_err(|e| unusable_authorities(options, &std::io::Error::other(e)))?;
        for certificate in found {
            client = client.with_root_certificate(certificate);
        }
    }
    Ok(client)
}

fn retry(limits: &Limits) -> RetryConfig {
    let most = limits.wait(limits.retries);
    RetryConfig {
        backoff: BackoffConfig { init_backoff: limits.pause, max_backoff: most, base: 2.0 },
        max_retries: usize::try_from(limits.retries).unwrap_or(usize::MAX),
        retry_timeout: limits.headers.saturating_mul(limits.retries.saturating_add(1)),
    }
}

/// Whether what follows `http://` begins with an address of this machine.
fn is_loopback(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_bucket_and_a_prefix() {
        let parsed = Address::parse("s3://my-bucket/team/gpu/").unwrap();
        assert_eq!((parsed.bucket.as_str(), parsed.prefix.as_str()), ("my-bucket", "team/gpu"));
        assert_eq!(Address::parse("gs://b").unwrap().prefix, "");
        for url in [
            "s3://",
            "s3:///x",
            "s3://b@c/x",
            "s3://b/../c",
            "s3://b/a//b",
            "s3://b/.hidden",
            "s3://b/a?b",
            "s3://b/a%2fb",
            "http://b/x",
            "b",
        ] {
            Address::parse(url).unwrap_err();
        }
    }

    #[test]
    fn unencrypted_endpoints_are_this_machine_s_own() {
        for rest in ["localhost", "localhost:9000", "127.0.0.1:1", "127.9.9.9/x", "[::1]:9000", "[::1]"] {
            assert!(is_loopback(rest), "{rest}");
        }
        for rest in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "10.0.0.1",
            "[::2]:1",
            "user@localhost",
            "localhost@example.org",
            "0.0.0.0:1",
        ] {
            assert!(!is_loopback(rest), "{rest}");
        }
    }

    #[test]
    fn a_store_elsewhere_is_never_spoken_to_in_the_clear() {
        let address = Address::parse("s3://bucket/x").unwrap();
        for name in ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
            let settings = [
                (name.to_owned(), "http://store.example.org".to_owned()),
                ("AWS_ALLOW_HTTP".to_owned(), "true".to_owned()),
            ];
            let refused = objects(&address, settings, &Options::default()).unwrap_err();
            assert!(refused.message.contains("is not encrypted"), "{}", refused.message);
        }
    }
}
