//! Where files of each language are cut.

use super::*;
use proptest::prelude::*;

fn symbols(path: &str, text: &str) -> String {
    let chunks = chunk_text(path, text, &ChunkOptions::default());
    chunks.iter().flat_map(|chunk| chunk.symbols.clone()).collect::<Vec<_>>().join(" ")
}

#[test]
fn definitions_of_each_language_are_found() {
    for (path, text, expected) in [
        (
            "a.rs",
            "pub(crate) const fn f() {}\npub struct S<T>;\nimpl S {\n    pub async fn g() {}\n}\nmacro_rules! m {}\nconst X: u8 = 1;",
            "f S g m X",
        ),
        (
            "a.py",
            "class A(B):\n    \"\"\"\n    class of things\n    \"\"\"\n    async def f(self):\n        return classify(1)\ndef g(): pass\n",
            "A f g",
        ),
        (
            "a.js",
            "exports.f = function () {}\nfunction g() {}\nconst h = (a) => a\nclass C {\n  m(a) {\n    if (a) {\n    }\n  }\n}\nA.prototype.p = function p() {}\n",
            "f g h C m p",
        ),
        (
            "a.ts",
            "export interface I {}\nexport type T = string\nexport abstract class C<T> {\n  private async m(): void {\n  }\n}\nexport default function f() {}\n",
            "I T C m f",
        ),
        (
            "a.go",
            "func (c *Command) Execute() error {\n}\ntype T struct {\n}\nfunc New[T any](x T) {\n}\n",
            "Execute T New",
        ),
        (
            "A.java",
            "public final class Gson {\n  public <T> T fromJson(String s) {\n    return x(1);\n  }\n  @Override\n  private static int f(\n}\ninterface I {}\n",
            "Gson fromJson I",
        ),
        (
            "a.c",
            "#define MAX 3\nstruct uv_loop_s {\n  int a;\n};\nstatic int uv__f(uv_loop_t* l) {\n  return g(l);\n}\nint uv_g(int a,\n         int b) {\n}\nextern int h(void);\nstruct a *x;\n",
            "MAX uv_loop_s uv__f uv_g",
        ),
        (
            "a.hpp",
            "template <typename T>\nclass FMT_API buffer : public base {\n public:\n  void push(T t) {\n  }\n};\ntemplate <typename T> struct formatter<T, char> {};\nusing A = int;\nnamespace fmt {\n",
            "buffer push formatter A fmt",
        ),
        (
            "a.rb",
            "module Rack\n  class Request < Base\n    def self.call(env)\n    end\n    def ok?\n    end\n  end\nend\n",
            "Rack Request call ok",
        ),
        (
            "A.scala",
            "sealed abstract class Json extends A {\n  final def fold[X](a: X): X\n}\nobject Json {\n  implicit val x = 1\n}\ntrait T\ncase class K(a: Int)\n",
            "Json fold T K",
        ),
        (
            "a.ex",
            "defmodule Ecto.Repo do\n  @doc \"\"\"\n  def not_this\n  \"\"\"\n  def get!(a, b) do\n  end\n  defp x, do: 1\nend\n",
            "Ecto.Repo get x",
        ),
        (
            "a.php",
            "<?php\nnamespace A\\B;\nabstract class C {\n    public static function f() {}\n}\n",
            "A C f",
        ),
        (
            "A.cs",
            "namespace N.M {\n    public sealed class C : D {\n        public async Task<int> F(int a) {\n        }\n    }\n}\n",
            "N.M C F",
        ),
        (
            "a.kt",
            "data class P(val x: Int)\nsuspend fun f() {}\nobject O\nval top = 1\n",
            "P f O top",
        ),
        (
            "a.swift",
            "public struct S: P {\n    public func f() -> Int {\n    }\n}\nextension A.B {}\nprotocol P {}\n",
            "S f A.B P",
        ),
        ("a.sh", "f() {\n  echo x\n}\nfunction g {\n}\nwhile true; do\ndone\n", "f g"),
        (
            "a.lua",
            "local function f(a)\nend\nfunction M.g(a)\nend\nM.h = function(a)\nend\n",
            "f M.g h",
        ),
        ("a.hs", "module A.B where\ndata T = X | Y\nf :: Int -> Int\nf x = x\n", "A.B T f"),
        ("a.zig", "pub const S = struct {\n    pub fn init() S {\n    }\n};\n", "S init"),
        (
            "a.sql",
            "CREATE TABLE IF NOT EXISTS users (\n id int);\ncreate or replace function f() returns int",
            "users f",
        ),
        ("a.md", "# Title one\ntext\n```sh\n# not a heading\n```\n## Two\n", "Title one Two"),
    ] {
        assert_eq!(symbols(path, text), expected, "{path}");
    }
}

#[test]
fn a_chunk_starts_at_a_definition_with_its_comment() {
    let body = "    let x = 1;\n".repeat(60);
    let text = format!("fn a() {{\n{body}}}\n\n/// Doc.\n#[inline]\nfn b() {{\n{body}}}\n");
    let chunks = chunk_text("a.rs", &text, &ChunkOptions::default());
    let starts: Vec<(u32, u32, &str)> =
        chunks.iter().map(|c| (c.start_line, c.end_line, c.symbols[0].as_str())).collect();
    assert_eq!(starts, [(1, 63, "a"), (64, 127, "b")]);
}

#[test]
fn cutting_stops_when_the_caller_has_enough_and_the_path_is_shared() {
    let text = "word word\n".repeat(10_000);
    let options = ChunkOptions { bytes_min: 0, bytes_max: 64, overlap_bytes: 0 };
    let all = chunk_text("a.txt", &text, &options);
    assert!(all.len() > 1000, "{}", all.len());
    assert!(all.iter().all(|chunk| Arc::ptr_eq(&chunk.path, &all[0].path)));
    let mut taken = Vec::new();
    each_chunk("a.txt", &text, &options, |chunk| {
        taken.push(chunk.text);
        if taken.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(taken, all[..3].iter().map(|chunk| chunk.text.as_str()).collect::<Vec<_>>());
}

#[test]
fn binary_data_is_refused_and_single_bad_bytes_are_replaced() {
    assert_eq!(decode(b"\x7fELF\0\0"), Err(NotText::Binary));
    assert_eq!(decode(&[0xff; 100]), Err(NotText::NotUtf8));
    assert_eq!(decode(b"caf\xe9 is latin one").as_deref(), Ok("caf\u{fffd} is latin one"));
    assert_eq!(decode(b"\xef\xbb\xbfx").as_deref(), Ok("x"));
}

#[test]
fn long_lines_and_many_lines_take_linear_time() {
    let started = std::time::Instant::now();
    for text in [
        "x".repeat(2 << 20),
        "ö y".repeat(1 << 17),
        "\n".repeat(1 << 19),
        "/*\n\"\"\"\n(".repeat(1 << 15),
    ] {
        let tight = ChunkOptions { bytes_min: 0, bytes_max: 64, overlap_bytes: 32 };
        for options in [ChunkOptions::default(), tight] {
            let mut n_bytes = 0;
            spans(&text, Language::Rust, &options, |span| {
                n_bytes += span.bytes.len();
                ControlFlow::Continue(())
            });
            assert!(n_bytes <= 2 * text.len() + 64, "{n_bytes}");
        }
    }
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn chunks_cover_every_word_in_order_within_their_bounds(
        lines in prop::collection::vec("( {0,6}|\t)(fn |def |class |# |//|\"\"\"|)[a-zé(){};= ]{0,60}", 0..80),
        bytes_min in 0usize..400,
        bytes_max in 1usize..600,
        overlap_bytes in 0usize..600,
    ) {
        let text = lines.join("\n");
        let options = ChunkOptions { bytes_min, bytes_max, overlap_bytes };
        let real_max = bytes_max.max(BYTES_MAX_MIN);
        for language in [Language::Rust, Language::Python, Language::Markdown, Language::Text, Language::C, Language::TypeScript] {
            let mut covered = 0;
            spans(&text, language, &options, |span| {
                assert!(span.bytes.len() <= real_max, "{} > {real_max}", span.bytes.len());
                assert!(span.bytes.end > covered);
                assert!(covered.saturating_sub(span.bytes.start) <= real_max / 2);
                if span.bytes.start > covered {
                    assert!(text[covered..span.bytes.start].trim().is_empty());
                }
                let line = u32::try_from(text[..span.bytes.start].matches('\n').count()).unwrap() + 1;
                assert_eq!(span.start_line, line);
                covered = span.bytes.end;
                ControlFlow::Continue(())
            });
            assert!(text[covered..].trim().is_empty());
        }
    }
}
