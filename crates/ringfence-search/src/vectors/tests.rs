//! Vectors kept, compared and fused.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use super::*;
use crate::{IndexLimits, Query, Tree};

/// Writes a model of a few words: `dog` and `puppy` point the same way, `car` another.
fn write_model(dir: &Path) {
    let vocabulary = r###"{"[UNK]": 0, "dog": 1, "pup": 2, "##py": 3, "car": 4}"###;
    let tokenizer = format!(
        r#"{{"normalizer": {{"type": "BertNormalizer", "lowercase": true}}, "model": {{"type": "WordPiece", "unk_token": "[UNK]", "vocab": {vocabulary}}}}}"#
    );
    fs::write(dir.join("tokenizer.json"), tokenizer).unwrap();
    let rows: [[f32; 2]; 5] = [[0.0, 0.0], [1.0, 0.1], [0.9, 0.0], [0.5, 0.1], [0.0, 1.0]];
    fs::write(dir.join("model.safetensors"), table(&rows)).unwrap();
}

fn table(rows: &[[f32; 2]]) -> Vec<u8> {
    let data: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let header = format!(
        r#"{{"embeddings": {{"dtype": "F32", "shape": [{}, 2], "data_offsets": [0, {}]}}}}"#,
        rows.len(),
        data.len()
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

/// Embeds nothing, and passes for another model.
#[derive(Debug)]
struct Refuses(u64);
impl Embedder for Refuses {
    fn model_id(&self) -> u64 {
        self.0
    }
    fn embed(&self, _: &[&str]) -> Result<Vec<Vec<f32>>, VectorError> {
        Err(VectorError::Answer)
    }
}

#[test]
fn words_of_the_same_meaning_are_found_and_fused() {
    let dir = tempfile::tempdir().unwrap();
    let (model, files, index) = (dir.path().join("m"), dir.path().join("f"), dir.path().join("i"));
    fs::create_dir(&model).unwrap();
    fs::create_dir(&files).unwrap();
    write_model(&model);
    fs::write(files.join("a.txt"), "The puppy sleeps.\n").unwrap();
    fs::write(files.join("b.txt"), "The car is parked.\n").unwrap();
    let model = StaticModel::open(&model).unwrap();
    let tree = Tree::open(&files).unwrap();
    let index = Index::open(&index, IndexLimits::default()).unwrap();
    index.update(&tree, &mut |_| ControlFlow::Continue(())).unwrap();
    let go_on = &mut || ControlFlow::Continue(());
    let (vectors, failure) = VectorIndex::default().updated(&index, &tree, &model, go_on).unwrap();
    assert!(failure.is_none());
    assert_eq!((vectors.len(), vectors.n_missing()), (2, 0));
    assert!(index.search(&Query::new("dog")).unwrap().is_empty());
    let near = vectors.search(&Query::new("DOG"), &model).unwrap();
    assert_eq!(near.first().map(|hit| hit.path.as_str()), Some("a.txt"));
    let only_b = Query { globs: vec!["b.*".to_owned()], ..Query::new("dog") };
    assert!(vectors.search(&only_b, &model).unwrap().iter().all(|hit| hit.path == "b.txt"));
    let words = index.search(&Query::new("parked")).unwrap();
    let fused = fuse(&[words, near], 10);
    assert_eq!(fused.len(), 2);

    // Known chunks are not embedded again, in this process or the next; those of another model are.
    let refuses = Refuses(model.model_id());
    assert_eq!(vectors.updated(&index, &tree, &refuses, go_on).unwrap().0.len(), 2);
    vectors.save(&index).unwrap();
    let loaded = VectorIndex::load(&index, model.model_id());
    let (loaded, _) = loaded.updated(&index, &tree, &refuses, go_on).unwrap();
    assert_eq!(loaded.search(&Query::new("dog"), &model).unwrap()[0].path, "a.txt");
    assert_eq!(VectorIndex::load(&index, model.model_id()).vectors.len(), 2);
    assert_eq!(VectorIndex::load(&index, 1).vectors.len(), 0);
    let (none, failure) = vectors.updated(&index, &tree, &Refuses(1), go_on).unwrap();
    assert_eq!((none.len(), none.n_missing(), failure.is_some()), (0, 2, true));
    assert!(none.search(&Query::new("dog"), &model).unwrap().is_empty());

    // Ended before the first call: everything is missing, nothing fails.
    let ended = &mut || ControlFlow::Break(());
    let (none, _) = VectorIndex::default().updated(&index, &tree, &model, ended).unwrap();
    assert_eq!((none.len(), none.n_missing()), (0, 2));
}

#[test]
fn a_damaged_file_of_vectors_counts_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let (model, files) = (dir.path().join("m"), dir.path().join("f"));
    fs::create_dir(&model).unwrap();
    fs::create_dir(&files).unwrap();
    write_model(&model);
    fs::write(files.join("a.txt"), "The puppy sleeps.\n").unwrap();
    let model = StaticModel::open(&model).unwrap();
    let tree = Tree::open(&files).unwrap();
    let index = Index::open(&dir.path().join("i"), IndexLimits::default()).unwrap();
    index.update(&tree, &mut |_| ControlFlow::Continue(())).unwrap();
    let go_on = &mut || ControlFlow::Continue(());
    VectorIndex::default().updated(&index, &tree, &model, go_on).unwrap().0.save(&index).unwrap();
    let path = dir.path().join("i/vectors");
    let sound = fs::read(&path).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(VectorIndex::load(&index, model.model_id()).vectors.len(), 0, "byte {at}");
        fs::write(&path, &sound[..at]).unwrap();
        assert_eq!(VectorIndex::load(&index, model.model_id()).vectors.len(), 0, "cut at {at}");
    }
    fs::write(&path, &sound).unwrap();
    assert_eq!(VectorIndex::load(&index, model.model_id()).vectors.len(), 1);
}

#[test]
fn texts_are_scored_by_cosine_similarity() {
    let dir = tempfile::tempdir().unwrap();
    write_model(dir.path());
    let model = StaticModel::open(dir.path()).unwrap();
    let texts: Vec<String> = ["a car", "a puppy", "nothing known"].map(str::to_owned).into();
    let scores = cosine_similarity("dog", &texts, &model).unwrap();
    assert!(scores[1] > 0.9 && scores[0] < 0.2 && scores[2].abs() < 1e-6, "{scores:?}");
}

#[test]
fn vectors_that_are_not_finite_are_refused() {
    #[derive(Debug)]
    struct Answers(f32);
    impl Embedder for Answers {
        fn model_id(&self) -> u64 {
            1
        }
        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, VectorError> {
            Ok(vec![vec![1.0, self.0]; texts.len()])
        }
    }
    let texts = ["a".to_owned()];
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let scores = cosine_similarity("x", &texts, &Answers(number));
        assert!(matches!(scores, Err(VectorError::Answer)), "{number}: {scores:?}");
    }
    assert!(cosine_similarity("x", &texts, &Answers(1.0)).is_ok());
}

#[test]
fn a_hit_of_both_rankings_comes_first() {
    let hit = |path: &str| Hit {
        path: path.to_owned(),
        start_line: 1,
        end_line: 2,
        language: crate::Language::Text,
        symbol: String::new(),
        score: 9.0,
        hash: 1,
    };
    let fused = fuse(&[vec![hit("a"), hit("b"), hit("c")], vec![hit("c"), hit("d")]], 3);
    let paths: Vec<&str> = fused.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!(paths, ["c", "a", "b"]);
}

#[test]
fn a_model_that_is_damaged_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    write_model(dir.path());
    let table_path = dir.path().join("model.safetensors");
    let sound = fs::read(&table_path).unwrap();
    for len in [0, 4, 8, 20, sound.len() - 1] {
        fs::write(&table_path, &sound[..len]).unwrap();
        let error = StaticModel::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("model.safetensors"), "{error}");
    }
    let forge = |header: &str| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        fs::write(&table_path, file).unwrap();
        StaticModel::open(dir.path()).unwrap_err().to_string()
    };
    for header in [
        r#"{"embeddings": {"dtype": "F32", "shape": [18446744073709551615, 2], "data_offsets": [0, 0]}}"#,
        r#"{"embeddings": {"dtype": "F32", "shape": [1, 2], "data_offsets": [8, 0]}}"#,
        r#"{"embeddings": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}"#,
        r#"{"embeddings": {"dtype": "X9", "shape": [0, 0], "data_offsets": [0, 0]}}"#,
        r#"{"embeddings": {"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]}}"#,
        "{}",
        "nonsense",
    ] {
        assert!(forge(header).contains("model.safetensors"), "{header}");
    }
    fs::write(&table_path, u64::MAX.to_le_bytes()).unwrap();
    assert!(StaticModel::open(dir.path()).is_err());
    fs::write(dir.path().join("tokenizer.json"), r#"{"model": {"type": "BPE", "vocab": {}}}"#)
        .unwrap();
    assert!(StaticModel::open(dir.path()).unwrap_err().to_string().contains("BPE"));
}
