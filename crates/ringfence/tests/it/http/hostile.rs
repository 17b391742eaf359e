//! Peers that mean harm or know no better. Whatever they do, an honest client is served, and memory is bounded.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ringfence_testing::json;

use super::client::{Client, Server};
use crate::living::{eventually, soon, there};
use crate::support::World;

/// Runs programs for an honest client and returns the slowest of their times.
fn honest(client: &mut Client, n: usize) -> Duration {
    (0..n)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(client.post("/api/v1/runs", &json!({"command": "true"})).status, 200);
            began.elapsed()
        })
        .max()
        .unwrap()
}

/// Reads until the other side closes; what it said.
fn rest(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // Bytes that we sent and it did not read make the end a reset.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_large_body_is_refused_before_it_is_read() {
    let world = World::new();
    let server = Server::new(&world);
    let before = server.resident_bytes();
    let json = ("Content-Type", "application/json");
    for path in ["/api/v1/runs", "/mcp", "/api/v1/sessions/x/files/a"] {
        let mut client = server.client();
        let method = if path.ends_with("files/a") { "PUT" } else { "POST" };
        client.begin(method, path, &[json, ("Content-Length", "200000000")], b"");
        // Nothing of it was sent yet.
        let answer = client.answer();
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"), "{path}");
    }
    // One that does not say how long it is, and one that lies.
    let part = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for headers in [[json, ("Transfer-Encoding", "chunked")], [json, ("Content-Length", "1048577")]]
    {
        let mut client = server.client();
        client.begin("POST", "/api/v1/runs", &headers, b"");
        let stream = client.stream.get_mut();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let n_sent = (0..1600).take_while(|_| stream.write_all(part.as_bytes()).is_ok()).count();
        assert!(n_sent < 1600, "100 MB were taken");
        if let Some(answer) = client.try_answer() {
            assert_eq!(answer.status, 413);
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes");
    honest(&mut server.client(), 3);
}

#[test]
fn slow_heads_and_bodies_are_ended_while_others_are_served() {
    let world = World::new();
    let server = Server::new(&world);
    let mut slow: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        // Half of them stop in the head, half in the body.
        let body = if n % 2 == 0 { "" } else { "\r\n{" };
        let head = format!(
            "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    let mut client = server.client();
    let began = Instant::now();
    // One byte a while keeps none of them.
    while began.elapsed() < Duration::from_secs(17) {
        for (n, stream) in slow.iter_mut().enumerate() {
            let _ = stream.write_all(if n % 2 == 0 { b"X" } else { b" " }.as_slice()).is_ok();
        }
        // Bodies take places, of which a client has 64; the honest one here is the same client.
        honest(&mut client, 1);
        std::thread::sleep(Duration::from_secs(3));
    }
    for stream in slow.iter_mut().step_by(2) {
        let began = Instant::now();
        let said = rest(stream);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
        assert!(began.elapsed() < soon(), "a slow head was kept");
    }
}

#[test]
fn idle_connections_keep_nobody_out() {
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    honest(&mut client, 5);
    let before = server.resident_bytes();
    let idle: Vec<TcpStream> = (0..500).map(|_| server.connect()).collect();
    // The last of them was taken in when this one is answered.
    assert_eq!(server.get("/healthz").status, 200);
    let each = server.resident_bytes().saturating_sub(before) / 500;
    assert!(each < 6 << 10, "{each} bytes a connection");
    let slowest = honest(&mut client, 50);
    assert!(slowest < soon(), "{slowest:?}");
    honest(&mut server.client(), 1);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes");
    // They are let go after a while.
    let began = Instant::now();
    for mut stream in idle {
        assert_eq!(rest(&mut stream), "");
    }
    assert!(began.elapsed() < Duration::from_mins(1));
}

#[test]
fn more_connections_than_there_is_room_for_push_out_the_idle() {
    let world = World::new();
    let flags = ["--connections", "20", "--rate-per-minute", "off"];
    let server = Server::with(&world, &flags);
    let mut busy = server.client();
    let asked = json!({"command": "touch up; sleep 2; echo answered"}).to_string();
    busy.begin("POST", "/api/v1/runs", &[("Content-Type", "application/json")], asked.as_bytes());
    there(&world.work().join("up"));
    let crowd: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    honest(&mut server.client(), 1);
    assert_eq!(busy.answer().json()["stdout"], "answered\n");
    drop(crowd);
}

#[test]
fn half_a_head_keeps_nobody_out() {
    let world = World::new();
    let server = Server::with(&world, &["--connections", "8"]);
    let mut half: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    for stream in &mut half {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    }
    for _ in 0..8 {
        let began = Instant::now();
        assert_eq!(server.get("/healthz").status, 200);
        assert!(began.elapsed() < soon(), "{:?}", began.elapsed());
    }
}

#[test]
fn the_last_place_is_not_taken_from_who_has_just_come() {
    let world = World::new();
    let server = Server::with(&world, &["--connections", "8", "--concurrent-per-client", "off"]);
    let mut busy: Vec<_> = (0..7).map(|_| server.client()).collect();
    for (n, client) in busy.iter_mut().enumerate() {
        let asked =
            json!({"command": format!("touch up{n}; while ! test -e done; do sleep 0.1; done")});
        let json = [("Content-Type", "application/json")];
        client.begin("POST", "/api/v1/runs", &json, asked.to_string().as_bytes());
    }
    eventually("all of them run", || (0..7).all(|n| world.work().join(format!("up{n}")).exists()));
    for n in 0..6 {
        let mut newcomer = server.client();
        // As long as a request takes from afar.
        std::thread::sleep(Duration::from_millis(20));
        newcomer.begin("GET", "/healthz", &[], b"");
        let answer = newcomer.try_answer().map(|answer| answer.status);
        assert_eq!(answer, Some(200), "{n}");
    }
    world.write("work/done", "");
    for client in &mut busy {
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn somebody_who_never_reads_is_left() {
    const N_DEAF: usize = 4;
    let world = World::new();
    let server = Server::new(&world);
    let mut deaf: Vec<TcpStream> = (0..N_DEAF).map(|_| server.connect()).collect();
    // More than the kernel holds for a connection whose reader has the smallest buffer.
    let asked = json!({"command": "head -c 6000000 /dev/zero | tr '\\0' x"}).to_string();
    for stream in &mut deaf {
        rustix::net::sockopt::set_socket_recv_buffer_size(&*stream, 1).unwrap();
        let head = format!(
            "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{asked}",
            asked.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    honest(&mut server.client(), 3);
    let socket = |server: &Server| {
        let dir = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
        std::fs::read_dir(dir)
            .unwrap()
            .flatten()
            .filter(|fd| {
                std::fs::read_link(fd.path())
                    .is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
            })
            .count()
    };
    let with_them = socket(&server);
    eventually("they are let go", || socket(&server) + N_DEAF <= with_them);
}

#[test]
fn nonsense_is_answered_or_left() {
    let world = World::new();
    let server = Server::new(&world);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(1000));
    let rows: &[&[u8]] = &[
        b"\r\n\r\n\r\n",
        b"hello?\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        b"GET /api/v1/sessions/../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ];
    for bytes in rows {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let said = rest(&mut stream);
        let status = said.strip_prefix("HTTP/1.1 ").map(|rest| &rest[..1]);
        assert!(said.is_empty() || status == Some("4"), "{shown}: {said}");
    }
    honest(&mut server.client(), 3);
}

#[test]
fn what_a_guest_writes_is_never_an_answer() {
    let world = World::new();
    let server = Server::new(&world);
    let forged = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let mut client = server.client();
    let command =
        format!("for fd in 1 2 3 4 5 6 7 8 9; do printf '{forged}' >&$fd; done 2>/dev/null; true");
    let answer = client.post("/api/v1/runs", &json!({"command": command}));
    assert_eq!(answer.json()["stdout"].as_str().unwrap().matches("HTTP/1.1").count(), 1);
    assert_eq!(client.get("/healthz").json()["status"], "ok");
}
