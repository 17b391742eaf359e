//! MCP: the tools, and the server that offers them. Serves clients of the stateless protocol (2026-07-28) and of
//! versions with a handshake, as the SDK does. Sessions are handles in arguments, so no state depends on a connection.
//!
//! | Module | Purpose |
//! |---|---|
//! | `arguments` | Argument types of the tools. |
//! | `calls` | Implementation of each tool. |
//! | `json_limits` | Checks the size and shape of a message before it is stored. |
//! | `line_framing` | Transport with one message per line. |
//! | `picture` | Scales images down for a model. |
//! | `picture_cost` | Computes the cost of decoding an image from its header. |
//! | `progress` | Progress notifications. |
//! | `raster` | Decodes, scales and encodes PNG and JPEG. |
//! | `resources` | Output and files that do not fit in a result, as resources. |
//! | `runs` | Runs as tool calls, and their results. |
//! | `stdio` | Server over standard input and output. |
//! | `tasks` | Runs that outlast their call, as protocol tasks. |
//! | `tool_result` | Builds the results of tool calls. |
//! | `tools` | Tool declarations and their schemas. |
//! | `truncate` | Shortens results to fit a context window. |

mod arguments;
mod calls;
pub(crate) mod json_limits;
mod line_framing;
mod picture;
mod picture_cost;
mod progress;
mod raster;
mod resources;
mod runs;
mod stdio;
mod tasks;
mod tool_result;
mod tools;
mod truncate;

use std::sync::{Arc, Once};

use base64::Engine as _;
use ringfence_engine::Engine;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData,
    GetTaskParams, GetTaskResult, Icon, Implementation, InitializeRequestParams, InitializeResult,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

pub use stdio::{End, serve_stdio};

use runs::Runs;

/// Maximum length of the server instructions, past which hosts cut them.
const INSTRUCTIONS_MAX: usize = 2048;

/// Server instructions that hosts pass to their model. `{network}` is that of commands.
const INSTRUCTIONS: &str = "\
Ringfence runs code and commands behind a fence: {network}, nothing of the user's but what the operator granted, limits \
on time, memory, processes and disk. Use it for every program you write or do not trust.

- execute_code: Python. Best for computing, parsing, checking an idea. Starts in about a millisecond.
- run_command: a shell command with the host's tools (git, compilers, test runners).
- session: make one (action `create`) to keep Python variables and files between calls; pass its id as `session`. Without \
one every call starts from nothing.
- read_file, write_file, edit_file, list_dir, grep, search, index: files of a session, below /workspace. In code, `import code_api` does the same and more in one call: help(code_api).
- wait: a run that takes longer than 2.5 seconds answers `status: running` with a `run_id`; ask for the rest with it.

Every result has `status`: `ok`; `error` (the program failed: read stderr and exception); `blocked` (refused before it ran: \
denials name rule, line and a way out); `timeout`, `memory`, `killed` (a limit: do less at once); `rejected` (too busy: try \
again later); `failed` (not your program's fault). `hint` says what to do next. Do not try to get around a refusal; choose \
what the hint names, or tell the user.";

/// The server instructions where commands have this network.
fn instructions(network: &str) -> String {
    let named = INSTRUCTIONS.replace("{network}", network);
    if named.len() <= INSTRUCTIONS_MAX {
        return named;
    }
    INSTRUCTIONS.replace("{network}", "network only where the operator allows it")
}

/// Cache lifetime of lists that change only with the version of this program.
const LIST_FRESH_MS: u64 = 3_600_000;

/// SDK handler with the tools of one client. Cheap to clone; clones share the runs.
#[derive(Clone, Debug)]
pub struct McpServer {
    engine: Engine,
    client: Arc<str>,
    runs: Arc<Runs>,
    warm: Arc<Once>,
}

impl McpServer {
    /// Offers the engine to a client, whose identity the caller has checked. `owner` is the key that the client's runs
    /// are registered under.
    pub fn new(engine: Engine, owner: &str, client: &str) -> Self {
        let runs = Arc::new(Runs::new(engine.clone(), owner, client));
        Self { engine, client: client.into(), runs, warm: Arc::new(Once::new()) }
    }

    /// Ends every run of this client, and every later one.
    pub fn end(&self) {
        self.runs.end();
    }

    /// Ends the runs that calls of an MCP session wait for. Those that have yielded go on.
    pub(crate) fn leave(&self, mcp_session: &str) {
        self.runs.leave(mcp_session);
    }

    /// Lists every tool, in a fixed order.
    pub fn tools(&self) -> Vec<Tool> {
        tools::all(&tools::PolicyInForce::of(&self.engine))
    }

    /// Starts workers with the first request for tools, so that the first run finds one.
    fn warm_up(&self) {
        self.warm.call_once(|| {
            let engine = self.engine.clone();
            // An error here occurs again in the first run, which reports it.
            tokio::spawn(async move { engine.warm_up().await.ok() });
        });
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let about = Implementation::new("ringfence", env!("CARGO_PKG_VERSION"))
            .with_title("Ringfence")
            .with_description("Runs code and commands behind a fence")
            .with_website_url(env!("CARGO_PKG_REPOSITORY"))
            .with_icons(vec![icon()]);
        let policy = tools::PolicyInForce::of(&self.engine);
        ServerConfig::new(capabilities())
            .with_server_info(about)
            .with_instructions(instructions(&policy.network()))
    }

    async fn initialize(
        &self,
        mut hello: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let info = self.negotiate_initialize(&hello)?;
        // The negotiated version, not the requested one: the SDK answers later requests by this value.
        hello.protocol_version = info.protocol_version.clone();
        context.peer.set_peer_info(hello);
        Ok(info)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        no_page(page)?;
        self.warm_up();
        let list = ListToolsResult::with_all_items(self.tools());
        Ok(list.with_ttl_ms(LIST_FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    // By default, the SDK answers prompts and completions with empty lists. These are not declared, so there is no such
    // method.

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        no_page(page)?;
        let list = ListResourcesResult::with_all_items(self.runs.resources.list());
        Ok(list.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        no_page(page)?;
        let list = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(list.with_ttl_ms(LIST_FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.runs.resources.read(&request.uri).map(ReadResourceResponse::Complete)
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.warm_up();
        let mut arguments = request.arguments.unwrap_or_default();
        arguments::leave_out_nulls(&mut arguments);
        self.call(&request.name, &arguments, &context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match unreadable_params(&request) {
            Some(said) => ErrorData::invalid_params(said, None),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.runs.task(&request.task_id).await.map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.runs.update_task(&request.task_id)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.runs.cancel_task(&request.task_id)
    }
}

/// Icon for lists of servers, as a data URI: nothing is fetched to show it.
fn icon() -> Icon {
    let encoded = base64::engine::general_purpose::STANDARD.encode(include_bytes!("icon.png"));
    Icon::new(format!("data:image/png;base64,{encoded}"))
        .with_mime_type("image/png")
        .with_sizes(vec!["32x32".to_owned()])
}

fn capabilities() -> ServerCapabilities {
    ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build()
}

/// Methods that the SDK knows, each with the text that its parameters must have.
const METHODS: [(&str, Option<&str>); 11] = [
    ("initialize", None),
    ("ping", None),
    ("resources/list", None),
    ("resources/read", Some("uri")),
    ("resources/templates/list", None),
    ("server/discover", None),
    ("tasks/cancel", Some("taskId")),
    ("tasks/get", Some("taskId")),
    ("tasks/update", Some("taskId")),
    ("tools/call", Some("name")),
    ("tools/list", None),
];

/// Describes the parameters of a request that the SDK could not read, although it knows the method.
fn unreadable_params(request: &CustomRequest) -> Option<String> {
    let given = |name: &str| request.params.as_ref().and_then(|params| params.get(name));
    let method = request.method.as_str();
    let (_, required) = METHODS.iter().find(|(known, _)| *known == method)?;
    let flaw = match required.map(|name| (name, given(name))) {
        Some((name, None)) => format!("`{name}` is missing"),
        Some((name, Some(value))) if !value.is_string() => format!("`{name}` must be a string"),
        _ if method == "tools/call" && given("arguments").is_some_and(|a| !a.is_object()) => {
            "`arguments` must be an object".to_owned()
        }
        _ => "the params do not fit its schema".to_owned(),
    };
    Some(format!("cannot read `{method}`: {flaw}"))
}

/// Rejects cursors. Every list has one page, so no cursor was ever given out.
fn no_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    if page.is_some_and(|page| page.cursor.is_some()) {
        return Err(ErrorData::invalid_params("there is no such page", None));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_not_cut_by_any_host() {
        for network in ["no network", &"host.example, ".repeat(100)] {
            let text = instructions(network);
            assert!(text.len() <= INSTRUCTIONS_MAX && !text.contains('{'), "{}", text.len());
        }
    }
}
