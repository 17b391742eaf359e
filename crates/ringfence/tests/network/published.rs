//! Ports of a run that the host connects to.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::rows::{Outcome, PRELUDE, world_of};
use crate::servers::Servers;

/// A server of the run that answers each connection with what it received, reversed. It ends when it is told to.
const REVERSER: &str = r#"
listener = socket.socket(socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((ADDRESS, PORT))
listener.listen(200)
def serve(s):
    got = b""
    while True:
        more = s.recv(65536)
        if not more:
            break
        got += more
    s.sendall(got[::-1])
    s.close()
    if got == b"stop":
        done.set()
done = threading.Event()
def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
done.wait(30)
"#;

/// Sends text to a port of the host, ends its own way and returns the answer. Tries again until the run serves.
fn ask(port: u16, text: &[u8]) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let asked = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            stream.write_all(text)?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        match asked() {
            Ok(answer) => return answer,
            Err(error) if Instant::now() > until => panic!("port {port}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn reverser(address: &str, port: u16) -> String {
    format!("{PRELUDE}\nADDRESS = {address:?}\nPORT = {port}\n{REVERSER}")
}

pub(crate) fn published_port(servers: &Servers) {
    for (i, address) in ["127.0.0.1", "::1", "0.0.0.0"].into_iter().enumerate() {
        let port = 18_080 + u16::try_from(i).unwrap();
        let world = world_of(servers);
        let clients = std::thread::spawn(move || {
            assert_eq!(ask(port, b"abc"), b"cba", "{address}");
            // Larger than every buffer on the way; the end of one way does not end the other.
            let large: Vec<u8> = (0..4 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
            let answer = ask(port, &large);
            assert!(answer.iter().eq(large.iter().rev()), "{address}: {} bytes", answer.len());
            // More at once, and more in all, than there are sockets in the run.
            let many: Vec<_> = (0..150)
                .map(|n| std::thread::spawn(move || (n, ask(port, format!("{n:04}").as_bytes()))))
                .collect();
            for one in many {
                let (n, answer) = one.join().unwrap();
                let expected: Vec<u8> = format!("{n:04}").bytes().rev().collect();
                assert_eq!(answer, expected);
            }
            assert_eq!(ask(port, b"stop"), b"pots");
        });
        let publish = format!("{port}:3000");
        let (code, json) = world.python(&["--publish", &publish], &reverser(address, 3000));
        clients.join().unwrap();
        assert_eq!(code, 0, "{json}");
        let ran = Outcome(code, json);
        let made = ran.connections("allowed");
        assert_eq!(made.len(), 153, "{:?}", ran.1["enforcement"]["gaps"]);
        let large = made.iter().find(|c| c["received_bytes"] == 4 << 20).expect("the large one");
        assert_eq!(large["sent_bytes"], 4 << 20);
        assert_eq!(large["door"], "published");
        assert_eq!(large["rule"], "publish:3000");
        assert_eq!(large["port"], 3000);
        // With the run its port is gone.
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    }
}

pub(crate) fn publishing_opens_one_way(servers: &Servers) {
    // A server of the host on the published port's number inside, and on another.
    let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 3000)).unwrap();
    let port = 18_090;
    let clients = std::thread::spawn(move || {
        // Not the host's own server on port 3000.
        assert_eq!(ask(port, b"stop"), b"pots");
    });
    let world = world_of(servers);
    let program = format!(
        "{PRELUDE}\nprint(tried(lambda: tcp('127.0.0.1', 3000)), tried(lambda: tcp('127.0.0.1', {port})), \
         tried(lambda: tcp('192.0.2.1', {port})), flush=True)\n{}",
        reverser("127.0.0.1", 3000)
    );
    let (code, json) = world.python(&["--publish", "18090:3000"], &program);
    clients.join().unwrap();
    assert_eq!(code, 0, "{json}");
    let said = json["stdout"].as_str().unwrap();
    assert!(!said.contains("<socket"), "a connection out: {said}");
    own.set_nonblocking(true).unwrap();
    assert!(own.accept().is_err(), "the run reached the host's own port");
}

pub(crate) fn publishing_fails_clearly(servers: &Servers) {
    let world = world_of(servers);
    let refused = |flags: &[&str], words: &[&str]| {
        let flags: Vec<&str> =
            ["run"].iter().chain(flags).chain(&["--", "true"]).copied().collect();
        let ran = world.ringfence(&flags);
        assert_ne!(ran.code, 0, "{flags:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "{flags:?}: {word} in {}", ran.stderr);
        }
    };
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 18_100)).unwrap();
    refused(&["--publish", "18100"], &["18100", "in use", "--publish 28100:18100"]);
    refused(&["--publish", "53"], &["port 53", "another port"]);
    refused(&["--publish", "8443", "--net", "allow:x.test:8443"], &["8443", "a rule"]);
    refused(&["--publish", "8080:1", "--publish", "8080:2"], &["one port of the host"]);
    refused(&["--publish", "x"], &["not a port", "8080:3000"]);
    // A port without a server inside: the client is refused, and told by the outcome once.
    let client = std::thread::spawn(|| {
        let until = Instant::now() + Duration::from_secs(20);
        let mut n_reset = 0;
        while n_reset < 3 && Instant::now() < until {
            if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, 18_101)) {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                assert!(stream.read(&mut [0; 1]).is_err(), "an answer without a server");
                n_reset += 1;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(n_reset, 3);
    });
    let (code, json) = world.sh_json(&["--publish", "18101:3001"], "sleep 2");
    client.join().unwrap();
    let ran = Outcome(code, json);
    let failed = ran.connections("failed");
    assert_eq!(failed.len(), 1, "{}", ran.1);
    assert_eq!(failed[0]["count"], 3);
    assert_eq!(failed[0]["reason"], "no server of the run listens on port 3001");
}
