//! `ringfence token`: tokens of `ringfence serve`. A running server sees a change at its next request.

use std::process::ExitCode;

use ringfence_server::http::{Scope, Token, Tokens};
use ringfence_spec::{Code, Problem, escape_name};
use serde_json::{Value, json};

use crate::cli::{TokenArgs, TokenCommand};
use crate::commands::local::data_dir;
use crate::present;
use crate::settings::{Surroundings, ready};
use crate::style::Look;
use crate::table::{self, Cell, cell, column, texts};

/// Runs the subcommand.
pub(crate) fn token(args: &TokenArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &TokenArgs) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    let tokens =
        Tokens::of(&ready(&data_dir(args.shared.data_dir.as_deref(), &around)?, &around.cwd)?);
    match &args.command {
        TokenCommand::New { name, scope } => {
            let scopes: Vec<Scope> = scope
                .iter()
                .map(|scope| scope.parse())
                .collect::<Result<_, String>>()
                .map_err(|e| Problem::usage(Code::BadScope, e))?;
            let scopes = if scopes.is_empty() { Scope::USUAL.to_vec() } else { scopes };
            let token = tokens.make(name, &scopes)?;
            if args.shared.json {
                present::json(&json!({"name": name, "scopes": scopes, "token": token}));
            } else {
                present::text(&format!("{token}\n"));
                present::note("keep it now; it is not shown again");
            }
        }
        TokenCommand::Ls => {
            let all = tokens.list()?;
            if args.shared.json {
                let shown: Vec<Value> = all.iter().map(as_json).collect();
                present::json(&shown);
            } else {
                table::print(
                    &[column("NAME"), column("STATE"), column("AGE"), texts("SCOPES")],
                    &rows(&all),
                );
            }
        }
        TokenCommand::Revoke { name } => tokens.revoke(name)?,
    }
    Ok(())
}

/// The public fields of a token.
fn as_json(token: &Token) -> Value {
    json!({
        "name": token.name, "scopes": token.scopes,
        "created_ms": token.created_ms, "revoked_ms": token.revoked_ms,
    })
}

fn rows(tokens: &[Token]) -> Vec<Vec<Cell>> {
    let now = ringfence_audit::now_ms();
    let row = |token: &Token| {
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        let (state, look) = match token.revoked_ms {
            Some(_) => ("revoked", Look::Bad),
            None => ("good", Look::Good),
        };
        let age = u64::try_from(now).unwrap_or(0).saturating_sub(token.created_ms);
        vec![
            cell(escape_name(&token.name)),
            (state.to_owned(), Some(look)),
            cell(table::age(age)),
            cell(scopes.join(",")),
        ]
    };
    tokens.iter().map(row).collect()
}
