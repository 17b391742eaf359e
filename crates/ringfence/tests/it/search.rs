//! `ringfence search` with the operator's settings: quotas, an embedding model, an embeddings endpoint.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ringfence_testing::Json;

use crate::support::World;

const SETTINGS: &str = "home/.config/ringfence/config.toml";

/// A session with a text about a dog that does not use the word, and one about something else.
fn session(world: &World) -> String {
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    std::fs::write(world.work().join("a.txt"), "The puppy sleeps in the garden.\n").unwrap();
    std::fs::write(world.work().join("b.txt"), "The car is parked.\n").unwrap();
    for file in ["a.txt", "b.txt"] {
        assert_eq!(world.ringfence(&["session", "put", &id, file]).code, 0);
    }
    id
}

fn search(world: &World, id: &str, query: &str) -> Json {
    let ran = world.ringfence(&["search", "--session", id, "--json", query]);
    assert!(ran.code < 2, "{}", ran.stderr);
    ran.json()
}

/// Paths of the hits.
fn paths(found: &Json) -> Vec<&str> {
    found["hits"].as_array().unwrap().iter().map(|hit| hit["path"].as_str().unwrap()).collect()
}

/// Headers and body of a request.
type Asked = Arc<Mutex<Vec<(String, Json)>>>;

/// An embeddings endpoint: texts with `dog` or `puppy` point one way, others another. `Err` is its whole answer.
fn endpoint(fails: Result<(), &'static str>) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/embeddings", listener.local_addr().unwrap());
    let asked = Asked::default();
    let taken = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim_end().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let body = Json::parse(&body);
            let texts = body["input"].as_array().unwrap().clone();
            taken.lock().unwrap().push((head, body));
            let data: Vec<String> = texts
                .iter()
                .enumerate()
                .map(|(index, text)| {
                    let text = text.as_str().unwrap();
                    let is_dog = text.contains("dog") || text.contains("puppy");
                    let vector = if is_dog { "[3.0, 0.1, 0.0]" } else { "[0.0, 0.1, 2.0]" };
                    format!("{{\"index\": {index}, \"embedding\": {vector}}}")
                })
                .collect();
            let good = format!("{{\"data\": [{}]}}", data.join(", "));
            let answer = match fails {
                Ok(()) => format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{good}",
                    good.len()
                ),
                Err(answer) => answer.to_owned(),
            };
            // A client may have gone away.
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    (url, asked)
}

#[test]
fn an_endpoint_ranks_by_meaning_and_is_asked_once_for_each_piece() {
    let key = format!("key-{}", 4711);
    let world = World::new().var("EMBEDDINGS_KEY", &key);
    let id = session(&world);
    assert_eq!(search(&world, &id, "dog")["ranking"], "bm25");
    assert_eq!(paths(&search(&world, &id, "dog")), [""; 0]);
    let (url, asked) = endpoint(Ok(()));
    world.write(
        SETTINGS,
        &format!("[search]\nendpoint = '{url}'\nendpoint_model = 'small'\nendpoint_key_env = 'EMBEDDINGS_KEY'\n"),
    );
    let found = search(&world, &id, "dog");
    assert_eq!(found["ranking"], "bm25+vectors");
    assert!(found.get("ranking_note").is_none(), "{found}");
    assert_eq!(paths(&found)[0], "a.txt", "{found}");
    // Both rankings together: the words of one file, the meaning of the other.
    let found = search(&world, &id, "dog parked");
    assert_eq!(paths(&found).len(), 2, "{found}");
    let asked = asked.lock().unwrap();
    let texts = |at: usize| asked[at].1["input"].as_array().unwrap().len();
    // The two pieces, then the two questions: pieces are kept from one process to the next.
    assert_eq!((asked.len(), texts(0), texts(1), texts(2)), (3, 2, 1, 1), "{asked:?}");
    let (head, body) = &asked[0];
    assert!(head.to_lowercase().contains(&format!("authorization: bearer {key}")), "{head}");
    assert_eq!(body["model"], "small");
    let files = world.ringfence(&["index", "--session", &id, "--json"]).json();
    assert_eq!(files["n_vectors"], 2, "{files}");
}

#[test]
fn an_endpoint_that_fails_leaves_the_ranking_by_words() {
    let refused = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let nonsense = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    let wrong = "HTTP/1.1 200 OK\r\nContent-Length: 44\r\nConnection: close\r\n\r\n{\"data\": [{\"index\": 9, \"embedding\": [1.0]}]}";
    for (answer, why) in
        [(refused, "503"), (nonsense, "not a list"), (wrong, "embed"), ("", "endpoint")]
    {
        let world = World::new();
        let id = session(&world);
        let (url, _) = endpoint(Err(answer));
        world.write(SETTINGS, &format!("[search]\nendpoint = '{url}'\nendpoint_model = 'small'\n"));
        let found = search(&world, &id, "parked");
        assert_eq!(found["ranking"], "bm25", "{found}");
        assert_eq!(paths(&found), ["b.txt"]);
        let note = found["ranking_note"].as_str().unwrap();
        assert!(note.contains(why) && note.contains("by words alone"), "{note}");
        // People are told too; the hits are the same.
        let ran = world.ringfence(&["search", "--session", &id, "parked"]);
        assert!(
            ran.stderr.contains("by words alone") && ran.stdout.contains("b.txt"),
            "{}",
            ran.stderr
        );
    }
}

/// Writes a model in the format of model2vec: `dog` and `puppy` point the same way.
fn write_model(dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    let tokenizer = r#"{"normalizer": {"type": "BertNormalizer", "lowercase": true}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "dog": 1, "puppy": 2, "car": 3}}}"#;
    std::fs::write(dir.join("tokenizer.json"), tokenizer).unwrap();
    let rows: [[f32; 2]; 4] = [[0.0, 0.0], [1.0, 0.1], [0.9, 0.0], [0.0, 1.0]];
    let data: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let header =
        r#"{"embeddings": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}}"#.as_bytes();
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(dir.join("model.safetensors"), [&length[..], header, &data].concat()).unwrap();
}

#[test]
fn a_model_of_the_operators_ranks_by_meaning() {
    let world = World::new();
    let id = session(&world);
    let model = world.root().join("model");
    write_model(&model);
    world.write(SETTINGS, &format!("[search]\nmodel = '{}'\n", model.display()));
    let found = search(&world, &id, "dog");
    assert_eq!(found["ranking"], "bm25+vectors");
    assert_eq!(paths(&found)[0], "a.txt", "{found}");
    // A model that cannot be used is the operator's mistake: said at once, not at a search.
    std::fs::write(model.join("model.safetensors"), "x").unwrap();
    let ran = world.ringfence(&["search", "--session", &id, "dog"]);
    assert!(ran.code == 2 && ran.stderr.contains("model.safetensors"), "{}", ran.stderr);
}

#[test]
fn a_missing_key_file_is_an_error_of_the_search_settings() {
    let world = World::new();
    let missing = world.root().join("no-key");
    let endpoint = "endpoint = 'https://x.example'\nendpoint_model = 'm'";
    let table = format!("[search]\n{endpoint}\nendpoint_key_file = '{}'\n", missing.display());
    world.write(SETTINGS, &table);
    for args in [&["--verbose", "mcp"][..], &["--verbose", "serve", "--check"]] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        for part in ["`[search]` of `", "no-key`", "\n  code: bad_value"] {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn quotas_are_the_operators_and_a_workspace_cannot_set_any_of_it() {
    let world = World::new();
    let id = session(&world);
    world.write(SETTINGS, "[search]\nsearches_per_day = 2\nindex_jobs_per_day = 1\n");
    for (args, n_allowed) in
        [(vec!["search", "--session", &id, "parked"], 2), (vec!["index", "--session", &id], 1)]
    {
        for n in 0..=n_allowed {
            let ran = world.ringfence(&args);
            assert_eq!(ran.code == 0, n < n_allowed, "{n} of {args:?}: {}", ran.stderr);
        }
    }
    for wrong in [
        "model = 'relative'",
        "endpoint = 'https://x.example'",
        "endpoint = 'ftp://x.example'\nendpoint_model = 'm'",
        "endpoint_model = 'm'",
        "model = '/x'\nendpoint = 'https://x.example'\nendpoint_model = 'm'",
        "searches_per_day = -1",
        "surprise = 1",
    ] {
        let file = world.write("own.toml", &format!("[search]\n{wrong}\n"));
        let checked = world.ringfence(&["policy", "check", &file.to_string_lossy()]);
        assert!(
            checked.code != 0 && checked.stderr.contains("[search]"),
            "{wrong}: {}",
            checked.stderr
        );
    }
    world.write("work/ringfence.toml", "[search]\nsearches_per_day = 1000\n");
    let ran = world.ringfence(&["run", "--", "true"]);
    assert!(ran.code != 0 && ran.stderr.contains("search"), "{}", ran.stderr);
}

/// A bound that ends an answer is named with what can be done about it; a number that is not obeyed is refused.
#[test]
fn bounds_are_named_and_numbers_beyond_them_refused() {
    let world = World::new();
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    std::fs::write(world.work().join("many.txt"), "needle\n".repeat(300)).unwrap();
    assert_eq!(world.ringfence(&["session", "put", &id, "many.txt"]).code, 0);
    let grep = |flags: &[&str]| {
        let ran = world.ringfence(&[&["grep", "--session", &id], flags, &["needle"]].concat());
        assert_eq!(ran.code, 0, "{flags:?}: {}", ran.stderr);
        (ran.stdout.lines().count(), ran.stderr)
    };
    let (n, told) = grep(&[]);
    assert_eq!(n, 20);
    assert!(
        told.starts_with("ringfence: 20 matches are shown, and there are more: `-m N`"),
        "{told}"
    );
    let most =
        "ringfence: 200 matches are shown, the most there can be; narrow the pattern or the path\n";
    assert_eq!(grep(&["-m", "500"]), (200, most.to_owned()));
    assert_eq!(grep(&["-m", "200"]), (200, most.to_owned()));
    for (args, range) in [
        (&["grep", "-m", "0", "x"][..], "0 is not in 1.."),
        (&["grep", "-C", "31", "x"], "31 is not in 0..=30"),
        (&["search", "-n", "0", "x"], "0 is not in 1..=100"),
        (&["search", "-n", "1000", "x"], "1000 is not in 1..=100"),
        (&["chunk", "--lines", "0", "many.txt"], "0 is not in 1.."),
        (&["chunk", "--overlap", "200", "many.txt"], "200 is not in 0..=50"),
    ] {
        let (command, rest) = args.split_first().unwrap();
        let ran = world.ringfence(&[&[command, "--session", &id], rest].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stdout);
        assert!(ran.stderr.contains(range), "{args:?}: {}", ran.stderr);
    }
}
