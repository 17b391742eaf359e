//! Domains below which anybody can register a name: public suffixes and shared hosting.

use super::HostName;

/// Object stores and hosting domains that the public suffix list does not hold, or holds by region only.
const SHARED: &[&str] = &[
    "s3.amazonaws.com",
    "s3.amazonaws.com.cn",
    "execute-api.us-east-1.amazonaws.com",
    "amazoncognito.com",
    "cloudfront.net",
    "blob.core.windows.net",
    "file.core.windows.net",
    "web.core.windows.net",
    "azureedge.net",
    "azurewebsites.net",
    "azure-api.net",
    "cloudapp.azure.com",
    "storage.googleapis.com",
    "firebaseio.com",
    "googleusercontent.com",
    "r2.cloudflarestorage.com",
    "r2.dev",
    "workers.dev",
    "pages.dev",
    "trycloudflare.com",
    "digitaloceanspaces.com",
    "ondigitalocean.app",
    "backblazeb2.com",
    "wasabisys.com",
    "oraclecloud.com",
    "aliyuncs.com",
    "myqcloud.com",
    "linodeobjects.com",
    "supabase.co",
    "fastly.net",
    "edgesuite.net",
    "akamaihd.net",
    "b-cdn.net",
    "github.io",
    "githubusercontent.com",
    "gitlab.io",
    "hf.space",
    "herokuapp.com",
    "netlify.app",
    "vercel.app",
    "fly.dev",
    "onrender.com",
    "railway.app",
    "ngrok.io",
    "ngrok.app",
    "ngrok-free.app",
    "loca.lt",
    "requestbin.net",
    "webhook.site",
    "nip.io",
    "sslip.io",
];

/// Returns true if names below this one belong to different owners: it is a public suffix, a domain of shared hosting,
/// or a parent of one.
pub(super) fn is_shared(base: &HostName) -> bool {
    let listed = |entry: &&str| {
        *entry == base.as_str()
            || entry.strip_suffix(base.as_str()).is_some_and(|rest| rest.ends_with('.'))
    };
    is_public_suffix(base.as_str()) || SHARED.iter().any(listed)
}

/// Asks the public suffix list. Its wildcard rules (`*.compute.amazonaws.com`) are about the names one level below, so
/// an invented child is asked too. Unlisted top-level domains (`internal`) are not public.
fn is_public_suffix(base: &str) -> bool {
    let is_whole = |name: &str| {
        psl::suffix(name.as_bytes())
            .is_some_and(|suffix| suffix.is_known() && suffix.as_bytes().len() == name.len())
    };
    is_whole(base) || is_whole(&format!("a.{base}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_names() {
        let rows = [
            ("com", true),
            ("co.uk", true),
            ("io", true),
            ("xn--p1ai", true),
            ("ck", true),
            ("github.io", true),
            ("s3.amazonaws.com", true),
            ("amazonaws.com", true),
            ("compute.amazonaws.com", true),
            ("core.windows.net", true),
            ("windows.net", true),
            ("googleapis.com", true),
            ("storage.googleapis.com", true),
            ("herokuapp.com", true),
            ("vercel.app", true),
            ("blogspot.com", true),
            ("example.com", false),
            ("github.com", false),
            ("python.org", false),
            ("foo.github.io", false),
            ("bucket.s3.amazonaws.com", false),
            ("bbc.co.uk", false),
            ("internal", false),
            ("corp", false),
            ("registry.corp", false),
            ("debian.org", false),
        ];
        for (name, shared) in rows {
            assert_eq!(is_shared(&name.parse().unwrap()), shared, "{name}");
        }
    }
}
