//! Handshakes in memory: who gets in, and why others do not.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use limo_identity::{
    Authority, AuthorityError, Certificate, CertifiedRole, Fingerprint, Identity, KeyRequest, Life, Roots, caller,
    join_listener, joiner, listener, server_name,
};
use limo_model::ClusterId;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

const CLUSTER: ClusterId = ClusterId([7; 16]);
const HOUR: Duration = Duration::from_secs(3600);

type Own = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn authority() -> Authority {
    Authority::new(CLUSTER, SystemTime::now()).expect("an authority")
}

fn issued(authority: &Authority, role: CertifiedRole, now: SystemTime) -> Own {
    let request = KeyRequest::new().expect("a key");
    let identity = Identity::new(CLUSTER, role, "n1").expect("a name");
    let (_, certificate) = authority.sign(request.request(), &identity, Life::of(role), now).expect("signed");
    (certificate, request.key())
}

fn roots(authorities: &[&Authority]) -> Roots {
    let authorities: Vec<_> = authorities.iter().map(|authority| authority.certificate().clone()).collect();
    Roots::new(&authorities).expect("roots")
}

fn server(authority: &Authority, role: CertifiedRole) -> ServerConnection {
    let config = listener(&roots(&[authority]), issued(authority, role, SystemTime::now())).expect("settings");
    ServerConnection::new(Arc::new(config)).expect("a server")
}

fn client(config: ClientConfig) -> ClientConnection {
    let name = ServerName::try_from(server_name(CLUSTER)).expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

fn client_of(trusted: &Authority, own: Own) -> ClientConnection {
    client(caller(&roots(&[trusted]), own).expect("settings"))
}

/// Exchanges bytes until both ends wait. Returns what the client sent.
fn shake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<Vec<u8>, rustls::Error> {
    let mut sent = Vec::new();
    loop {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("memory");
        }
        sent.extend(&bytes);
        feed_server(server, &bytes)?;
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).expect("memory");
        }
        if bytes.is_empty() && answer.is_empty() {
            return Ok(sent);
        }
        let mut rest = &answer[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets()?;
        }
    }
}

fn feed_server(server: &mut ServerConnection, mut bytes: &[u8]) -> Result<(), rustls::Error> {
    while !bytes.is_empty() {
        server.read_tls(&mut bytes).expect("memory");
        server.process_new_packets()?;
    }
    Ok(())
}

fn refused(client: &mut ClientConnection, server: &mut ServerConnection, expected: &str) {
    let error = shake(client, server).expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
    assert!(server.is_handshaking(), "the server has let the client in");
}

#[test]
fn both_ends_know_each_other() {
    let authority = authority();
    let mut server = server(&authority, CertifiedRole::Master);
    let now = SystemTime::now();
    let mut client = client_of(&authority, issued(&authority, CertifiedRole::Node, now));
    shake(&mut client, &mut server).expect("agreed");
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!(server.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    let [certificate] = server.peer_certificates().expect("certificates") else { panic!("one certificate") };
    let peer = Certificate::read(certificate).expect("an identity");
    assert_eq!((peer.identity.role(), peer.identity.name()), (CertifiedRole::Node, "n1"));
    let life = peer.until.duration_since(now).expect("later");
    // 30 days; certificates count whole seconds.
    assert!(life.abs_diff(720 * HOUR) <= Duration::from_secs(1), "{life:?}");
    assert!(now.duration_since(peer.made).expect("earlier") <= Duration::from_secs(1));
    // Two thirds of 30 days are 20 days.
    assert!(peer.renewal().duration_since(peer.made).expect("later").abs_diff(480 * HOUR) <= Duration::from_secs(1));
}

#[test]
fn a_caller_without_a_certificate_is_refused() {
    let authority = authority();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut store = RootCertStore::empty();
    store.add(authority.certificate().clone()).expect("a root");
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS 1.3");
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![limo_identity::ALPN.to_vec()];
    let mut server = server(&authority, CertifiedRole::Master);
    refused(&mut client(config), &mut server, "peer sent no certificates");
}

#[test]
fn an_expired_certificate_is_refused() {
    let authority = authority();
    // One hour longer than the 30 days of a node.
    let long_ago = SystemTime::now() - 721 * HOUR;
    let own = issued(&authority, CertifiedRole::Node, long_ago);
    let mut server = server(&authority, CertifiedRole::Master);
    refused(&mut client_of(&authority, own), &mut server, "certificate expired");
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (authority, other) = (authority(), Authority::new(CLUSTER, SystemTime::now()).expect("an authority"));
    let own = issued(&other, CertifiedRole::Operator, SystemTime::now());
    let mut to = server(&authority, CertifiedRole::Master);
    assert!(shake(&mut client_of(&authority, own), &mut to).expect_err("refused").to_string().contains("certificate"));
    let own = issued(&authority, CertifiedRole::Node, SystemTime::now());
    let mut fake = server(&other, CertifiedRole::Master);
    assert!(
        shake(&mut client_of(&authority, own), &mut fake).expect_err("refused").to_string().contains("certificate")
    );
}

#[test]
fn a_certificate_with_the_wrong_usage_is_refused() {
    let authority = authority();
    let now = SystemTime::now();
    let mut to = server(&authority, CertifiedRole::Master);
    let master = issued(&authority, CertifiedRole::Master, now);
    assert!(
        shake(&mut client_of(&authority, master), &mut to).expect_err("refused").to_string().contains("certificate")
    );
    // A node cannot pose as a master.
    let mut fake = server(&authority, CertifiedRole::Node);
    let own = issued(&authority, CertifiedRole::Node, now);
    assert!(
        shake(&mut client_of(&authority, own), &mut fake).expect_err("refused").to_string().contains("certificate")
    );
}

#[test]
fn replayed_bytes_are_refused() {
    let authority = authority();
    let config = listener(&roots(&[&authority]), issued(&authority, CertifiedRole::Master, SystemTime::now()));
    let config = Arc::new(config.expect("settings"));
    let mut first = ServerConnection::new(Arc::clone(&config)).expect("a server");
    let mut client = client_of(&authority, issued(&authority, CertifiedRole::Node, SystemTime::now()));
    let sent = shake(&mut client, &mut first).expect("agreed");
    assert!(!first.is_handshaking());
    let mut second = ServerConnection::new(config).expect("a server");
    let error = feed_server(&mut second, &sent).expect_err("refused");
    assert_eq!(error, rustls::Error::DecryptError);
    assert!(second.is_handshaking());
}

#[test]
fn two_authorities_are_trusted_during_a_rotation() {
    let (old, new) = (authority(), authority());
    let both = roots(&[&old, &new]);
    let config = listener(&both, issued(&new, CertifiedRole::Master, SystemTime::now())).expect("settings");
    let config = Arc::new(config);
    for authority in [&old, &new] {
        let mut server = ServerConnection::new(Arc::clone(&config)).expect("a server");
        let own = issued(authority, CertifiedRole::Node, SystemTime::now());
        let mut client = client(caller(&both, own).expect("settings"));
        shake(&mut client, &mut server).expect("agreed");
    }
    let three = [old.certificate(), new.certificate(), old.certificate()].map(Clone::clone);
    assert_eq!(Roots::new(&three).expect_err("three").to_string().split(':').next(), Some("there are 3 authorities"));
    assert!(Roots::new(&[]).is_err());
}

#[test]
fn an_authority_is_the_same_after_it_was_stored() {
    let made = authority();
    let loaded = Authority::load(CLUSTER, &made.key_pem(), made.certificate().clone()).expect("loaded");
    let own = issued(&loaded, CertifiedRole::Node, SystemTime::now());
    let mut server = server(&made, CertifiedRole::Master);
    shake(&mut client_of(&made, own), &mut server).expect("agreed");
    let prints = [&made, &loaded].map(|authority| Fingerprint::of(authority.certificate()).expect("a certificate"));
    assert_eq!(prints[0], prints[1]);
    assert_eq!(prints[0].to_string().len(), 64);
    let other = authority();
    let mixed = Authority::load(CLUSTER, &other.key_pem(), made.certificate().clone());
    assert!(matches!(mixed.map(drop), Err(AuthorityError::OtherKey)));
}

#[test]
fn only_the_key_of_a_request_is_used() {
    let authority = authority();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let mut wish = rcgen::CertificateParams::new(vec!["master.evil".to_owned()]).expect("a name");
    wish.subject_alt_names.push(rcgen::SanType::URI("limo://a/operator/root".try_into().expect("ASCII")));
    let request = wish.serialize_request(&key).expect("a request");
    let identity = Identity::new(CLUSTER, CertifiedRole::Node, "n7").expect("a name");
    let life = Life::of(CertifiedRole::Node);
    let (serial, signed) = authority.sign(request.der(), &identity, life, SystemTime::now()).expect("signed");
    let read = Certificate::read(&signed).expect("one URI");
    assert_eq!((read.identity, read.serial), (identity.clone(), serial));
    let other = Identity::new(ClusterId([8; 16]), CertifiedRole::Node, "n7").expect("a name");
    let error = authority.sign(request.der(), &other, life, SystemTime::now()).expect_err("refused");
    assert!(matches!(error, AuthorityError::OtherCluster(cluster) if cluster == ClusterId([8; 16])));
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let request = rcgen::CertificateParams::default().serialize_request(&key).expect("a request");
    let error = authority.sign(request.der(), &identity, life, SystemTime::now()).expect_err("refused");
    assert!(matches!(error, AuthorityError::Algorithm));
}

#[test]
fn a_life_is_never_longer_than_that_of_its_role() {
    let longest = |role| Life::at_most(role, 10_000 * HOUR).duration();
    assert_eq!(
        CertifiedRole::ALL.map(longest),
        [2160 * HOUR, 720 * HOUR, 24 * HOUR, 24 * HOUR, 720 * HOUR, 720 * HOUR]
    );
    assert_eq!(Life::at_most(CertifiedRole::User, HOUR).duration(), HOUR);
}

fn join_server(authorities: &[&Authority], (certificate, key): Own) -> ServerConnection {
    let roots = authorities.iter().map(|authority| authority.certificate().clone());
    let chain = std::iter::once(certificate).chain(roots).collect();
    ServerConnection::new(Arc::new(join_listener(chain, key).expect("settings"))).expect("a server")
}

fn join_client(fingerprint: Fingerprint) -> ClientConnection {
    let name = ServerName::try_from("master.limo.internal").expect("a name");
    ClientConnection::new(Arc::new(joiner(fingerprint).expect("settings")), name).expect("a client")
}

fn fingerprint(authority: &Authority) -> Fingerprint {
    Fingerprint::of(authority.certificate()).expect("a certificate")
}

#[test]
fn a_machine_without_a_certificate_knows_its_master_by_the_fingerprint_of_the_authority() {
    let (mine, other) = (authority(), authority());
    let master = || issued(&mine, CertifiedRole::Master, SystemTime::now());
    let mut server = join_server(&[&mine, &other], master());
    let mut client = join_client(fingerprint(&mine));
    shake(&mut client, &mut server).expect("agreed");
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!(server.peer_certificates(), None);
    assert_eq!(server.alpn_protocol(), Some(limo_identity::JOIN_ALPN));
    // The other authority is shown, but has not signed the certificate.
    let mut server = join_server(&[&mine, &other], master());
    let error = shake(&mut join_client(fingerprint(&other)), &mut server).expect_err("refused").to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
    // The authority is not shown.
    let mut server = join_server(&[&other], master());
    let error = shake(&mut join_client(fingerprint(&mine)), &mut server).expect_err("refused").to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

#[test]
fn a_node_cannot_pose_as_the_master_of_a_machine_that_joins() {
    let authority = authority();
    let mut fake = join_server(&[&authority], issued(&authority, CertifiedRole::Node, SystemTime::now()));
    let error = shake(&mut join_client(fingerprint(&authority)), &mut fake).expect_err("refused").to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
    let long_ago = SystemTime::now() - 2161 * HOUR;
    let mut late = join_server(&[&authority], issued(&authority, CertifiedRole::Master, long_ago));
    let error = shake(&mut join_client(fingerprint(&authority)), &mut late).expect_err("refused").to_string();
    assert!(error.contains("expired"), "{error}");
}

#[test]
fn a_machine_that_joins_cannot_call_as_a_member() {
    let authority = authority();
    let mut members = server(&authority, CertifiedRole::Master);
    let error = shake(&mut join_client(fingerprint(&authority)), &mut members).expect_err("refused").to_string();
    assert!(error.contains("support any known protocol"), "{error}");
}
