//! Plain HTTP/1: parsed, judged and written anew request by request, so that a second request on a connection, a doubled
//! header or a lone carriage return cannot carry something past the rules. Bodies pass unread.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue,
    IF_RANGE, RANGE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request as HttpRequest, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use ringfence_spec::network::{Host, NetworkLimitKind};
use ringfence_spec::{ConnectionDoor, SECRET_RULE, escape_name};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::connection::{self, Stream};
use crate::credentials::{Misplaced, StreamReplace};
use crate::dial::{self, Dialled};
use crate::helper::State;
use crate::relay::{self, Counted};
use crate::report::{Refusal, Request};

type Body = BoxBody<Bytes, hyper::Error>;

/// An answer of the helper's own, instead of the host's.
struct OwnAnswer {
    status: StatusCode,
    words: String,
}

/// Header fields that some servers take for the method or the path of a request.
const REPLACING_FIELDS: [&str; 5] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// Characters of a refused request's path that are shown.
const PATH_CHARS_SHOWN: usize = 100;

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Maximum number of header fields of a request.
const HEADERS_MAX: usize = 200;

/// Maximum size of the head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Header fields of one connection, not of a request (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 8] = [
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "http2-settings",
];

/// The host that requests of a connection may name.
pub(crate) enum Target {
    /// The host that the connection was made to, and perhaps a connection to it.
    Fixed(Request, Option<Dialled>),
    /// The host of a connection whose TLS ends here, and goes on from here.
    Intercepted(Request),
    /// Any that the rules allow: a proxy's client names it in each request.
    Proxy {
        /// The client's address.
        client: SocketAddr,
    },
}

/// Where a request goes.
struct Destination {
    host: Host,
    port: u16,
    /// True if it goes on over TLS.
    tls: bool,
}

/// Beginning of the paths of base URLs: `http://127.0.0.1:3128/https/HOST/PATH` is `https://HOST/PATH`, for clients that
/// have certificates of their own and can be given another URL.
const BASE_URL_PATH: &str = "/https/";

/// One connection of a client.
struct Session {
    state: Rc<State>,
    /// Host and port of every request, unless the client uses a proxy.
    fixed: Option<(Host, u16)>,
    /// True if requests came over TLS and go on over TLS.
    tls: bool,
    door: ConnectionDoor,
    client: Option<SocketAddr>,
    upstream: RefCell<Option<Upstream>>,
    ready: RefCell<Option<(Request, Dialled)>>,
    /// State of the connection.
    tunnel: RefCell<Option<JoinHandle<()>>>,
}

/// A connection to a host, kept for the next request. Reported when its request is dropped.
struct Upstream {
    request: Request,
    port: u16,
    tls: bool,
    sender: Option<SendRequest<Incoming>>,
}

/// Serves the requests of one connection.
pub(crate) async fn serve(state: Rc<State>, stream: impl Stream, target: Target) {
    let tls = matches!(target, Target::Intercepted(_));
    let (fixed, door, client, ready) = match target {
        Target::Intercepted(request) => {
            let fixed = Some((request.host.clone(), request.port.unwrap_or(HTTPS)));
            (fixed, request.door, request.client, None)
        }
        Target::Fixed(request, dialled) => {
            let fixed = Some((request.host.clone(), request.port.unwrap_or(HTTP)));
            let (door, client) = (request.door, request.client);
            (fixed, door, client, dialled.map(|dialled| (request, dialled)))
        }
        Target::Proxy { client } => (None, ConnectionDoor::HttpProxy, Some(client), None),
    };
    let session = Rc::new(Session {
        state,
        fixed,
        tls,
        door,
        client,
        upstream: RefCell::default(),
        ready: RefCell::new(ready),
        tunnel: RefCell::default(),
    });
    let service = hyper::service::service_fn(|request| {
        let session = Rc::clone(&session);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    // A malformed request ends the connection with 400; its reason is the client's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    // The caller counts the connection until its tunnel ends.
    let tunnel = session.tunnel.borrow_mut().take();
    if let Some(tunnel) = tunnel {
        let _ = tunnel.await;
    }
}

impl Session {
    async fn answer(self: Rc<Self>, request: HttpRequest<Incoming>) -> Response<Body> {
        if request.method() == Method::CONNECT {
            return self.connect(request).await.unwrap_or_else(OwnAnswer::into_response);
        }
        self.forward(request).await.unwrap_or_else(OwnAnswer::into_response)
    }

    /// Opens a tunnel for a proxy's client.
    async fn connect(
        self: Rc<Self>,
        request: HttpRequest<Incoming>,
    ) -> Result<Response<Body>, OwnAnswer> {
        if self.fixed.is_some() {
            return Err(text(
                StatusCode::METHOD_NOT_ALLOWED,
                "ringfence: CONNECT is for the proxy",
            ));
        }
        let asked =
            request.uri().authority().and_then(|authority| host_and_port(authority.as_str(), None));
        let Some((host, port)) = asked else {
            return Err(text(StatusCode::BAD_REQUEST, "ringfence: CONNECT needs HOST:PORT"));
        };
        let record = self.request(host.clone(), port);
        let dialled = connection::dial_first(&self.state, &record, port).await;
        let dialled = dialled.map_err(|refusal| refuse(&record, &refusal, port))?;
        let state = Rc::clone(&self.state);
        let tunnel = tokio::task::spawn_local(async move {
            if let Ok(upgraded) = hyper::upgrade::on(request).await {
                connection::serve(state, TokioIo::new(upgraded), record, dialled).await;
            }
        });
        self.tunnel.replace(Some(tunnel));
        Ok(Response::new(empty()))
    }

    async fn forward(
        &self,
        mut request: HttpRequest<Incoming>,
    ) -> Result<Response<Body>, OwnAnswer> {
        let to = if let Some(to) = self.base_url_target(&mut request)? {
            to
        } else {
            let (host, port) = self.target(&request)?;
            Destination { host, port, tls: self.tls }
        };
        let Destination { host, port, tls } = &to;
        let (port, tls) = (*port, *tls);
        if port == HTTPS && !tls {
            let refusal = Refusal::denied("port 443 carries TLS, and the request does not");
            return Err(refuse(&self.request(host.clone(), port), &refusal, port));
        }
        self.judge(&request, host, port)?;
        let has_secret = tls && self.state.secrets.has(host, port);
        let upgrade = upgrade_of(request.headers());
        let mut sender = self.sender(&to).await?;
        let client_upgrade = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
        if has_secret {
            self.state.secrets.refresh(host, port, &self.state.reporter).await;
        }
        let carried = self.rewrite(&mut request, &to, upgrade.as_ref())?;
        let sent = sender.send_request(request).await;
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                self.upstream.borrow_mut().take();
                let words = format!("ringfence: no answer from {host}:{port}: {error}");
                return Err(text(StatusCode::BAD_GATEWAY, words));
            }
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            self.state.secrets.refused_by_host(&carried);
        }
        if has_secret {
            self.state.secrets.take_out(response.headers_mut());
            response.extensions_mut().remove::<hyper::ext::ReasonPhrase>();
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(client_upgrade) = client_upgrade else {
                return Err(text(
                    StatusCode::BAD_GATEWAY,
                    "ringfence: an upgrade that was not asked for",
                ));
            };
            if has_secret && !self.state.secrets.keep_lengths() {
                let words = "ringfence: the credential for this host has another length than its placeholder, so it could not be taken out of what follows the upgrade";
                return Err(text(StatusCode::BAD_GATEWAY, words));
            }
            let server_upgrade = hyper::upgrade::on(&mut response);
            let values = if has_secret { self.state.secrets.equal_lengths() } else { Vec::new() };
            // Kept until the tunnel ends, so that its bytes are counted.
            let upstream = self.upstream.borrow_mut().take();
            let tunnel = tokio::task::spawn_local(async move {
                if let (Ok(client), Ok(server)) = (client_upgrade.await, server_upgrade.await) {
                    let server = relay::cleaned(TokioIo::new(server), values);
                    relay::both_ways(TokioIo::new(client), server).await;
                }
                drop(upstream);
            });
            self.tunnel.replace(Some(tunnel));
        } else {
            strip(response.headers_mut());
            if let Some(upstream) = self.upstream.borrow_mut().as_mut() {
                upstream.sender = Some(sender);
            }
        }
        if has_secret {
            let streams = self.state.secrets.streams();
            if !self.state.secrets.keep_lengths() {
                response.headers_mut().remove(CONTENT_LENGTH);
            }
            return Ok(response.map(|body| Scrubbed { body, streams, ended: false }.boxed()));
        }
        Ok(response.map(http_body_util::BodyExt::boxed))
    }

    /// Refuses a request that no rule about requests to its host matches, or that is one too many.
    fn judge(
        &self,
        request: &HttpRequest<Incoming>,
        host: &Host,
        port: u16,
    ) -> Result<(), OwnAnswer> {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let is_judged = self.state.judges_requests(host);
        let replaces = if is_judged || self.state.secrets.judge_paths(host, port) {
            REPLACING_FIELDS.iter().find(|name| request.headers().contains_key(**name))
        } else {
            None
        };
        let mut rules = self.state.plan.requests.iter().filter(|rule| rule.is_about(host, port));
        let refusal = if let Some(name) = replaces {
            let reason = format!(
                "requests to {host} are judged by method and path, which `{name}` would replace"
            );
            Refusal { rule: Some("net_request".to_owned()), ..Refusal::denied(reason) }
        } else if is_judged && !rules.any(|r| r.matches(method, path)) {
            // A part of the path is enough to recognise it.
            let path: String = path.chars().take(PATH_CHARS_SHOWN).collect();
            let path = escape_name(&path);
            let reason = format!("no rule about requests to {host} allows `{method} {path}`");
            Refusal { rule: Some("net_request".to_owned()), ..Refusal::denied(reason) }
        } else {
            match self.state.limits.take(NetworkLimitKind::Requests, host) {
                Ok(()) => return Ok(()),
                Err(refusal) => refusal,
            }
        };
        Err(refuse(&self.request(host.clone(), port), &refusal, port))
    }

    /// The host of a request to a base URL, whose path becomes that at the host; `None` for any other request.
    fn base_url_target(
        &self,
        request: &mut HttpRequest<Incoming>,
    ) -> Result<Option<Destination>, OwnAnswer> {
        let uri = request.uri();
        if self.fixed.is_some() || uri.authority().is_some() {
            return Ok(None);
        }
        let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let Some(rest) = whole.strip_prefix(BASE_URL_PATH) else { return Ok(None) };
        let bad = |words: &str| text(StatusCode::BAD_REQUEST, words);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let Some((host, port)) = host_and_port(authority, Some(HTTPS)) else {
            return Err(bad("ringfence: a base URL is /https/HOST of this proxy"));
        };
        if !self.state.secrets.has(&host, port) {
            let refusal = Refusal::denied(format!(
                "no secret is for {host}, so it has no base URL; use https://{host}"
            ));
            return Err(refuse(&self.request(host, port), &refusal, port));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = PathAndQuery::try_from(format!("{slash}{path}"));
        *request.uri_mut() = Uri::from(path.map_err(|_| bad("ringfence: not a path"))?);
        Ok(Some(Destination { host, port, tls: true }))
    }

    /// The host that a request is for.
    fn target(&self, request: &HttpRequest<Incoming>) -> Result<(Host, u16), OwnAnswer> {
        let bad = |words: &str| text(StatusCode::BAD_REQUEST, words);
        let default = if self.tls { HTTPS } else { HTTP };
        let mut hosts = request.headers().get_all(HOST).iter();
        let named = match (hosts.next(), hosts.next()) {
            (Some(host), None) => {
                let host = host.to_str().ok().and_then(|host| host_and_port(host, Some(default)));
                Some(host.ok_or_else(|| bad("ringfence: the Host header is not a host"))?)
            }
            (None, _) => None,
            (Some(_), Some(_)) => return Err(bad("ringfence: two Host headers")),
        };
        let uri = request.uri();
        let absolute = match (uri.scheme(), uri.authority()) {
            (None, None) => None,
            (Some(scheme), Some(authority)) if *scheme == self.scheme() => {
                let host = host_and_port(authority.as_str(), Some(default));
                Some(host.ok_or_else(|| bad("ringfence: the URL does not name a host"))?)
            }
            _ => {
                return Err(bad("ringfence: only http:// URLs are forwarded; use CONNECT for TLS"));
            }
        };
        let asked = match (&self.fixed, absolute, named) {
            // RFC 9112, 3.2.2: a proxy goes by the URL, and the two must agree here.
            (None, Some(url), Some(header)) if url != header => {
                return Err(bad("ringfence: the URL and the Host header name different hosts"));
            }
            (None, Some(url), _) => return Ok(url),
            (None, None, _) => {
                return Err(bad("ringfence: this is a proxy; send a whole URL or CONNECT"));
            }
            (Some(fixed), url, header) => {
                let named = [url, header].into_iter().flatten();
                match named.clone().find(|named| named != fixed) {
                    None if named.count() == 0 => {
                        return Err(bad("ringfence: the request has no Host header"));
                    }
                    other => other,
                }
            }
        };
        let Some(fixed) = &self.fixed else { return Err(bad("ringfence: no host")) };
        match asked {
            None => Ok(fixed.clone()),
            Some((other, _)) => {
                let reason =
                    format!("the request names {other}, and the connection is to {}", fixed.0);
                let record = self.request(fixed.0.clone(), fixed.1);
                Err(refuse(&record, &Refusal::denied(reason), fixed.1))
            }
        }
    }

    /// A connection to send the next request on: the last one, if it leads there and still lives, or a new one.
    async fn sender(&self, to: &Destination) -> Result<SendRequest<Incoming>, OwnAnswer> {
        let Destination { host, port, tls } = to;
        let (port, tls) = (*port, *tls);
        let kept = {
            let mut upstream = self.upstream.borrow_mut();
            let same =
                |up: &&mut Upstream| up.request.host == *host && up.port == port && up.tls == tls;
            upstream.as_mut().filter(same).and_then(|up| up.sender.take())
        };
        if let Some(mut sender) = kept
            && sender.ready().await.is_ok()
        {
            self.count();
            return Ok(sender);
        }
        self.upstream.borrow_mut().take();
        let ready = self.ready.borrow_mut().take();
        let (record, dialled) = if let Some(ready) = ready {
            ready
        } else {
            let record = self.request(host.clone(), port);
            match dial::dial(&self.state, &record).await {
                Ok(dialled) => (record, dialled),
                Err(refusal) => return Err(refuse(&record, &refusal, port)),
            }
        };
        let Dialled { stream } = dialled;
        let stream: Counted<TcpStream> = Counted::new(stream, Arc::clone(&record.traffic));
        let sender = match (&self.state.interception, host) {
            (Some(interception), Host::Name(name)) if tls => {
                match interception.connect(stream, name).await {
                    Ok(stream) => handshake(stream).await,
                    Err(error) => {
                        let refusal = Refusal::failed(format!("TLS with the host: {error}"));
                        return Err(refuse(&record, &refusal, port));
                    }
                }
            }
            _ if tls => return Err(text(StatusCode::BAD_GATEWAY, "ringfence: no TLS")),
            _ => handshake(stream).await,
        };
        let sender = sender.map_err(|error| {
            text(StatusCode::BAD_GATEWAY, format!("ringfence: {host}:{port}: {error}"))
        })?;
        let upstream = Upstream { request: record, port, tls, sender: None };
        *self.upstream.borrow_mut() = Some(upstream);
        self.count();
        Ok(sender)
    }

    fn scheme(&self) -> Scheme {
        if self.tls { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// Writes a request as a client of the host would: origin form, one Host header, nothing of this connection, and the
    /// credentials that are for it. Returns those that it carries.
    fn rewrite(
        &self,
        request: &mut HttpRequest<Incoming>,
        to: &Destination,
        upgrade: Option<&HeaderValue>,
    ) -> Result<Vec<usize>, OwnAnswer> {
        let Destination { host, port, tls } = to;
        let (port, tls) = (*port, *tls);
        let mut path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
        *request.version_mut() = Version::HTTP_11;
        let usual = if tls { HTTPS } else { HTTP };
        let shown = host.in_url();
        let authority = if port == usual { shown } else { format!("{shown}:{port}") };
        let not_sendable = || text(StatusCode::BAD_REQUEST, "ringfence: not a request for a host");
        let value = HeaderValue::try_from(authority).map_err(|_| not_sendable())?;
        // hyper sends no body with GET and the like unless a header says that there is one.
        let has_body = !request.body().is_end_stream();
        let headers = request.headers_mut();
        strip(headers);
        headers.insert(HOST, value);
        if has_body && !headers.contains_key(CONTENT_LENGTH) {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if let Some(upgrade) = upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, upgrade.clone());
        }
        let put = self.state.secrets.put_in(host, port, tls, &mut path, headers);
        let carried = put.map_err(|Misplaced { name, reason }| {
            let rule = Some(format!("{SECRET_RULE}{name}"));
            let refusal = Refusal { rule, ..Refusal::denied(reason) };
            refuse(&self.request(host.clone(), port), &refusal, port)
        })?;
        if tls && self.state.secrets.has(host, port) {
            // An answer that repeats the credential must be readable, and whole.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            headers.remove(RANGE);
            headers.remove(IF_RANGE);
        }
        let path = PathAndQuery::try_from(path).map_err(|_| not_sendable())?;
        *request.uri_mut() = Uri::from(path);
        Ok(carried)
    }

    fn count(&self) {
        if let Some(upstream) = self.upstream.borrow().as_ref() {
            upstream.request.traffic.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn request(&self, host: Host, port: u16) -> Request {
        Request::new(&self.state.reporter, host, Some(port), self.door, self.client)
    }
}

/// Reports a refusal and words it for the program.
fn refuse(record: &Request, refusal: &Refusal, port: u16) -> OwnAnswer {
    record.refused(refusal);
    let status = match refusal.verdict {
        ringfence_spec::ConnectionVerdict::Denied => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_GATEWAY,
    };
    text(status, refusal.words(&record.host, port))
}

/// Begins HTTP/1 on a connection to a host.
async fn handshake<S>(stream: S) -> hyper::Result<SendRequest<Incoming>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, driver) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::task::spawn_local(async move {
        // Ends with the connection; an error reaches the request that waits for an answer.
        let _ = driver.with_upgrades().await;
    });
    Ok(sender)
}

/// A body in which credentials are replaced by their placeholders, part by part as they arrive.
struct Scrubbed {
    body: Incoming,
    streams: Vec<StreamReplace>,
    ended: bool,
}

impl hyper::body::Body for Scrubbed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        while !self.ended {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => frame.into_data(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.ended = true;
                    let mut rest = Vec::new();
                    for stream in &mut self.streams {
                        rest = stream.push(&rest);
                        rest.extend(stream.finish());
                    }
                    if rest.is_empty() {
                        return Poll::Ready(None);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
            };
            // Trailers are dropped: no client of HTTP/1 waits for them.
            let Ok(data) = frame else { continue };
            let streams = self.streams.iter_mut();
            let clean = streams.fold(data.to_vec(), |part, stream| stream.push(&part));
            if !clean.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(clean.into()))));
            }
        }
        Poll::Ready(None)
    }
}

/// Removes the header fields of one connection. The framing of bodies is hyper's.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    headers.remove(UPGRADE);
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The protocol that a request asks to change to. Only WebSocket: others carry requests, which are judged.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(UPGRADE)?;
    value.as_bytes().eq_ignore_ascii_case(b"websocket").then(|| value.clone())
}

/// Reads HOST or HOST:PORT. No user name, no empty port.
fn host_and_port(text: &str, default: Option<u16>) -> Option<(Host, u16)> {
    let authority: Authority = text.parse().ok()?;
    if authority.as_str().contains('@') {
        return None;
    }
    // `Authority` drops a port that is out of range.
    let port = match authority.as_str().strip_prefix(authority.host())?.strip_prefix(':') {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse().ok()?,
        Some(_) => return None,
        None => default?,
    };
    Some((authority.host().parse().ok()?, port)).filter(|(_, port)| *port != 0)
}

fn text(status: StatusCode, words: impl Into<String>) -> OwnAnswer {
    OwnAnswer { status, words: words.into() }
}

impl OwnAnswer {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(full(format!("{}\n", self.words)));
        *response.status_mut() = self.status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, plain);
        response
    }
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_header_is_a_host_and_perhaps_a_port() {
        for (text, expected) in [
            ("a.test", Some("a.test 80")),
            ("A.TEST.", Some("a.test 80")),
            ("a.test:8080", Some("a.test 8080")),
            ("[2001:db8::1]:81", Some("2001:db8::1 81")),
            ("127.0.0.1", Some("127.0.0.1 80")),
            ("a.test:", None),
            ("a.test:0", None),
            ("a.test:99999", None),
            ("a.test:+80", None),
            ("a.test:80:80", None),
            ("u@a.test", None),
            ("a.test@b.test", None),
            ("", None),
            ("a.test/x", None),
            ("127.1", None),
            ("0x7f000001", None),
            ("a.test,b.test", None),
        ] {
            let found = host_and_port(text, Some(80)).map(|(host, port)| format!("{host} {port}"));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        assert!(host_and_port("a.test", None).is_none());
    }
}
