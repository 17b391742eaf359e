//! Tokens of providers: the prefix, the alphabet and the length of each, from the providers' documentation and from public
//! rule sets. From the most telling to the least; if two overlap the first names the hit.
//!
//! A length is the fewest characters behind the prefix: providers lengthen their tokens over time.

use super::chars::Class::{
    Alnum, Base64, Crypt, Dotted, Header, HeaderList, Hex, Lower, Path, Percent, Token, Upper,
    Webhook, Word,
};
use super::rules::{ANY, Before, SecretRule, exactly, parts, run};

/// Rules of tokens with a fixed prefix, or with a fixed part behind a part of fixed length.
pub(crate) static PROVIDERS: &[SecretRule] = &[
    exactly("age-secret-key", &["AGE-SECRET-KEY-1"], Alnum, 58).bits(0.0),
    // Clouds.
    exactly("aws-access-key", &["AKIA", "ASIA", "ABIA", "ACCA"], Upper, 16),
    exactly("aws-access-key", &["A3T"], Upper, 17),
    run("aws-bedrock-key", &["ABSK"], Base64, 109),
    run("aws-bedrock-key", &["bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"], Base64, 0).bits(0.0),
    run("aws-session-token", &["FwoGZXIvYXdz", "IQoJb3JpZ2lu"], Base64, 100),
    exactly("aws-appsync-key", &["da2-"], Lower, 26),
    exactly("gcp-api-key", &["AIza"], Token, 35).bits(3.9),
    run("gcp-api-key", &["AQ.Ab8RN6"], Token, 40),
    run("gcp-oauth", &["ya29.", "GOCSPX-"], Token, 24),
    run("gcp-oauth", &["1//0"], Token, 40),
    parts(
        "azure-client-secret",
        &["0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"],
        Header,
        &[(31, 34)],
    )
    .after(Before::Chars(Header, 3)),
    // Signatures that Azure writes into its keys, behind a random part of fixed length.
    run("azure-key", &["+ASt", "+ABa", "ACDb", "APIM"], Base64, 4)
        .after(Before::Chars(Base64, 76))
        .bits(0.0),
    run("azure-key", &["+ASb", "+AEh", "+ARm", "AIoT", "AzCa"], Base64, 6)
        .after(Before::Chars(Base64, 33))
        .bits(0.0),
    run("azure-key", &["AzSe", "+ACR"], Base64, 6).after(Before::Chars(Base64, 42)).bits(0.0),
    run("azure-key", &["AzFu"], Base64, 5).after(Before::Chars(Header, 44)).bits(0.0),
    run("azure-devops-token", &["AZDO"], Alnum, 4).after(Before::Chars(Alnum, 76)).bits(0.0),
    run("alibaba-key", &["LTAI"], Alnum, 16).digits(),
    run("alibaba-token", &["CAIS"], Header, 200),
    run("alibaba-token", &["STS."], Alnum, 16).mixed(),
    run("tencent-key", &["AKID"], Alnum, 32),
    run("yandex-key", &["AQVN"], Token, 35),
    exactly("yandex-key", &["YC"], Token, 38).digits(),
    run("yandex-token", &["t1."], Header, 90).digits(),
    run("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], Hex, 64),
    run("cloudflare-key", &["v1.0-"], Token, 160),
    exactly("cloudflare-key", &["cfut_", "cfat_", "cfk_"], Alnum, 48),
    run("exoscale-key", &["EXO"], Alnum, 24).mixed(),
    run("flyio-token", &["FlyV1 "], HeaderList, 60),
    run("flyio-token", &["fo1_"], Token, 43),
    run("flyio-token", &["fm1a_", "fm1r_", "fm2_"], Base64, 100),
    run("heroku-key", &["HRKU-"], Token, 36),
    run("scalingo-token", &["tk-us-"], Token, 48),
    run("vercel-token", &["vca_", "vci_", "vck_", "vcp_", "vcr_"], Token, 50),
    run("netlify-token", &["nfp_", "nfc_", "nfo_", "nfb_", "nfu_"], Alnum, 36),
    run("render-key", &["rnd_"], Alnum, 28),
    run("upcloud-token", &["ucat_"], Alnum, 24).digits(),
    run("val-town-token", &["vtwn_"], Token, 20).digits(),
    run("ubidots-key", &["BBFF-"], Alnum, 30),
    // Repositories, registries, builds.
    run("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], Word, 36),
    run("github-token", &["github_pat_"], Word, 60),
    run(
        "gitlab-token",
        &[
            "glpat-",
            "gldt-",
            "glrt-",
            "glrtr-",
            "glcbt-",
            "glft-",
            "glsoat-",
            "glffct-",
            "glwt-",
            "GR1348941",
        ],
        Dotted,
        20,
    ),
    exactly("gitlab-token", &["glimt-"], Token, 25),
    exactly("gitlab-token", &["glptt-"], Token, 40),
    run("gitlab-token", &["glagent-"], Token, 50),
    exactly("gitlab-token", &["gloas-"], Token, 64),
    exactly("gitlab-session", &["_gitlab_session="], Lower, 32),
    run("bitbucket-token", &["ATBB"], Header, 28).mixed(),
    run("bitbucket-token", &["BBDC-"], Base64, 40),
    run("atlassian-token", &["ATATT3", "ATCTT3"], Header, 60),
    exactly("npm-token", &["npm_"], Alnum, 36),
    run("pypi-token", &["pypi-AgE"], Token, 62),
    run("rubygems-key", &["rubygems_"], Alnum, 48),
    exactly("crates-io-token", &["cio"], Alnum, 32),
    exactly("nuget-key", &["oy2"], Lower, 43),
    run("clojars-token", &["CLOJARS_"], Alnum, 60),
    run("docker-token", &["dckr_pat_", "dckr_oat_"], Token, 24),
    run("docker-swarm-token", &["SWMTKN-1-", "SWMKEY-1-"], Header, 40),
    run("artifactory-key", &["AKCp", "AKCP"], Alnum, 60),
    exactly("artifactory-token", &["cmVmd"], Alnum, 59),
    run("circleci-token", &["CCIPAT_", "CCIPRJ_"], Word, 40),
    run(
        "buildkite-token",
        &["bkua_", "bkaa_", "bkaj_", "bkar_", "bkct_", "bkpt_", "bkpat_", "bkps_"],
        Token,
        36,
    ),
    run("sonar-token", &["squ_", "sqp_", "sqa_", "sqco_"], Alnum, 40),
    exactly("sourcegraph-token", &["sgp_", "sgp_local_"], Hex, 40),
    exactly("sourcegraph-token", &["sgp_"], Word, 57),
    run("sourcegraph-token", &["sgd_", "slk_"], Word, 40),
    exactly("segment-token", &["sgp_"], Alnum, 64),
    exactly("octopus-key", &["API-"], Upper, 26).digits(),
    parts("harness-key", &["pat.", "sat."], Token, &[(22, 22), (24, 24), (20, 20)]),
    run("prefect-key", &["pnu_", "pnb_"], Alnum, 36),
    run("pulumi-token", &["pul-"], Lower, 40),
    run("infracost-key", &["ico-"], Alnum, 32),
    run("terraform-token", &[".atlasv1."], Header, 60).after(Before::Chars(Alnum, 14)),
    run("mergify-key", &["mergify_application_key_"], Token, 40),
    run("cloudsmith-key", &["csa_"], Alnum, 36),
    run("thunderstore-token", &["tss_"], Token, 20).digits(),
    run("dependency-track-key", &["odt_"], Alnum, 32),
    // Secret stores and identity.
    run("vault-token", &["hvs.", "hvb.", "hvr."], Token, 24),
    // Rejects 24 letters of one case: a random base62 token almost never has neither a digit nor both cases.
    exactly("vault-token", &["s."], Alnum, 24).two_kinds(),
    run(
        "doppler-token",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."],
        Dotted,
        36,
    ),
    run("1password-token", &["ops_eyJ"], Base64, 100),
    run("1password-key", &["A3-"], Token, 30).upper(),
    parts(
        "authress-key",
        &["sc_", "ext_", "scauth_", "authress_"],
        Token,
        &[(5, 30), (4, 6), (14, 38), (30, ANY)],
    ),
    run("openshift-token", &["sha256~"], Token, 43),
    run("tailscale-key", &["tskey-"], Token, 20).bits(0.0),
    run("defined-networking-key", &["dnkey-"], Header, 60),
    run("endor-key", &["endr+"], Token, 16).digits(),
    run("unkey-key", &["unkey_"], Alnum, 20).digits(),
    run("zuplo-key", &["zpka_"], Word, 40),
    // Chat, mail, telephony.
    run(
        "slack-token",
        &[
            "xoxb-",
            "xoxp-",
            "xoxa-",
            "xoxr-",
            "xoxs-",
            "xoxo-",
            "xoxe-",
            "xoxc-",
            "xoxe.xoxp-",
            "xoxe.xoxb-",
            "xapp-",
            "xwfp-",
        ],
        Token,
        18,
    )
    .many_digits(),
    run("slack-token", &["xoxa-", "xoxr-"], Token, 10),
    run("slack-token", &["xoxd-"], Header, 40),
    run(
        "slack-webhook",
        &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"],
        Path,
        30,
    )
    .bits(0.0),
    run(
        "teams-webhook",
        &["webhook.office.com/webhookb2/", "outlook.office.com/webhook/"],
        Webhook,
        80,
    ),
    run(
        "discord-webhook",
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        Path,
        60,
    ),
    run("tines-webhook", &[".tines.com/webhook/"], Path, 60),
    run("zapier-webhook", &["hooks.zapier.com/hooks/catch/"], Path, 10).bits(0.0),
    parts(
        "discord-token",
        // Base64 of the digits that a bot's id begins with.
        &["MT", "MD", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
        Token,
        &[(22, 24), (6, 7), (27, 40)],
    ),
    exactly("telegram-token", &[":A"], Token, 34).after(Before::Digits(5, 16)),
    exactly("twilio-key", &["SK"], Hex, 32),
    parts("sendgrid-key", &["SG."], Token, &[(16, 32), (32, 64)]),
    run("sendgrid-key", &["SG."], Header, 66),
    run("brevo-key", &["xkeysib-", "xsmtpsib-"], Token, 80),
    exactly("mailgun-key", &["key-", "pubkey-"], Hex, 32),
    run("mailchimp-key", &["-us"], Alnum, 1).after(Before::Chars(Hex, 32)).bits(0.0),
    run("mailersend-key", &["mlsn."], Alnum, 30),
    run("resend-key", &["re_"], Word, 30).mixed(),
    exactly("telnyx-key", &["KEY"], Token, 55).mixed(),
    exactly("twitch-token", &["oauth:"], Lower, 30).digits(),
    // Payments and shops.
    run(
        "stripe-key",
        &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_", "whsec_"],
        Base64,
        10,
    ),
    run("square-token", &["sq0atp-", "sq0csp-", "sq0idp-", "sq0idb-", "sq0cib-"], Token, 22),
    run("square-token", &["EAAA"], Token, 22).mixed(),
    run("shopify-token", &["shpat_", "shpss_", "shpca_", "shppa_", "shptka_"], Alnum, 32),
    run("razorpay-key", &["rzp_live_", "rzp_test_"], Alnum, 14),
    run("paypal-token", &["access_token$production$", "access_token$sandbox$"], Crypt, 40),
    run("paddle-key", &["pdl_live_apikey_", "pdl_sdbx_apikey_"], Word, 40),
    run("pagarme-key", &["ak_live_", "ak_test_"], Alnum, 30),
    run("asaas-key", &["$aact_prod_", "$aact_hmlg_"], Header, 20),
    run("flutterwave-key", &["FLWSECK_TEST-", "FLWPUBK_TEST-", "FLWSECK-", "FLWPUBK-"], Token, 12)
        .bits(2.0),
    run("easypost-key", &["EZAK", "EZTK"], Alnum, 54),
    run("shippo-token", &["shippo_live_", "shippo_test_"], Hex, 40),
    run("duffel-token", &["duffel_test_", "duffel_live_"], Header, 40),
    run("ramp-secret", &["ramp_sec_", "ramp_id_"], Alnum, 40),
    run("mercury-token", &["mercury_production_", "secret-token:mercury_"], Word, 40),
    run("polar-token", &["polar_at_", "polar_oat_", "polar_pat_"], Token, 20),
    run(
        "plaid-token",
        &["access-sandbox-", "access-development-", "access-production-"],
        Token,
        36,
    ),
    run("gocardless-token", &["live_"], Header, 40).mixed(),
    run("lob-key", &["live_", "test_", "live_pub_", "test_pub_"], Hex, 31),
    run("column-key", &["live_", "test_"], Alnum, 27).mixed(),
    run("klaviyo-key", &["pk_"], Word, 34).mixed(),
    run("checkout-key", &["sk_sbx_", "pk_sbx_"], Lower, 24),
    run("secret-key", &["sk_"], Token, 29).mixed(),
    run("onfido-token", &["api_live.", "api_live_ca.", "api_live_us."], Token, 20),
    // Models.
    run("anthropic-key", &["sk-ant-"], Token, 24),
    exactly("openrouter-key", &["sk-or-v1-"], Hex, 64),
    run(
        "openai-key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-", "sk-service-"],
        Token,
        24,
    ),
    run("minimax-key", &["sk-api-"], Token, 60),
    run("openai-key", &["sk-"], Alnum, 32),
    exactly("moonshot-key", &["sk-"], Token, 48).mixed(),
    exactly("huggingface-token", &["hf_", "api_org_"], Alnum, 34),
    exactly("groq-key", &["gsk_"], Alnum, 52),
    run("replicate-token", &["r8_"], Token, 36),
    run("xai-key", &["xai-"], Token, 60),
    run("perplexity-key", &["pplx-"], Alnum, 40),
    run("langsmith-key", &["lsv2_pt_", "lsv2_sk_"], Word, 32),
    run("langfuse-key", &["sk-lf-"], Token, 36),
    run("nvidia-key", &["nvapi-"], Token, 60),
    run("cerebras-key", &["csk-"], Alnum, 48),
    run("together-key", &["tgp_v1_"], Token, 40),
    run("fireworks-key", &["fw_"], Alnum, 22).mixed(),
    run("jina-key", &["jina_"], Token, 60),
    run("tavily-key", &["tvly-"], Token, 28),
    run("brave-key", &["BSA"], Token, 24).mixed(),
    run("elevenlabs-key", &["sk_"], Hex, 48),
    run("pinecone-key", &["pcsk_"], Word, 60),
    run("wandb-key", &["wandb_v1_"], Word, 70),
    run("runpod-key", &["rpa_"], Alnum, 30),
    run("voyage-key", &["pa-"], Token, 40).mixed(),
    run("apify-token", &["apify_api_"], Alnum, 34),
    run("cursor-key", &["key_"], Hex, 64),
    run("devin-key", &["cog_"], Lower, 52),
    run("devin-key", &["apk_", "apk_user_"], Base64, 80),
    // Data, monitoring.
    exactly("databricks-token", &["dapi"], Hex, 32),
    run("planetscale-token", &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], Header, 32),
    run("supabase-token", &["sbp_", "sb_secret_"], Token, 30),
    run("neon-key", &["napi_"], Alnum, 60),
    run("mongodb-secret", &["mdb_sa_sk_"], Token, 40),
    exactly("clickhouse-key", &["4b1d"], Alnum, 38),
    run("cockroach-key", &["CCDB1_"], Word, 60),
    run("astra-token", &["AstraCS:"], Header, 20),
    run("elastic-key", &["essu_"], Header, 60),
    run("confluent-key", &["cflt"], Header, 56),
    run("grafana-token", &["glsa_"], Word, 32),
    run("grafana-token", &["glc_"], Base64, 32),
    // Base64 of `{"k":"`.
    run("grafana-key", &["eyJrIjoi"], Base64, 40),
    run("sentry-token", &["sntrys_eyJ"], Header, 40),
    exactly("sentry-token", &["sntryu_"], Hex, 64),
    run(
        "newrelic-key",
        &["NRAK-", "NRII-", "NRIQ-", "NRAA-", "NRJS-", "NRBR-", "NRSP-", "NRRA-"],
        Token,
        19,
    ),
    run("newrelic-key", &["nraa-", "nriq-", "nrak-", "nrii-"], Token, 24),
    exactly("newrelic-key", &["NRAL"], Alnum, 0).after(Before::Chars(Alnum, 36)).bits(0.0),
    parts(
        "dynatrace-token",
        &["dt0c01.", "dt0s01.", "dt0s02.", "dt0s04.", "dt0s06.", "dt0s08.", "dt0s16."],
        Token,
        &[(8, 24), (64, 64)],
    ),
    run("datadog-key", &["ddapp_", "ddpat_"], Alnum, 34),
    run("deno-token", &["ddp_", "ddo_"], Alnum, 36),
    parts("posthog-key", &["phc_", "phs_"], Token, &[(41, 44)]),
    parts("posthog-key", &["phx_"], Token, &[(41, 49)]),
    run("rootly-key", &["rootly_"], Hex, 64),
    run("logfire-token", &["pylf_v1_"], Word, 40),
    run("honeycomb-key", &["hcaik_", "hcbik_", "hcxik_", "hcamk_"], Alnum, 50),
    // Work, content, devices.
    run("linear-key", &["lin_api_", "lin_oauth_"], Alnum, 32),
    exactly("notion-token", &["ntn_"], Alnum, 46),
    exactly("notion-token", &["secret_"], Alnum, 43),
    run("figma-token", &["figd_", "figp_", "figo_", "figu_"], Header, 36),
    run("postman-key", &["PMAK-"], Token, 40),
    run("clickup-key", &["pk_"], Word, 40).many_digits(),
    parts("airtable-token", &["pat"], Alnum, &[(14, 14), (62, 66)]),
    run("hubspot-token", &["pat-na1-", "pat-eu1-", "pat-na2-", "pat-ap1-"], Token, 36),
    run("typeform-token", &["tfp_"], Header, 40),
    run("readme-key", &["rdme_"], Alnum, 60),
    run("frameio-token", &["fio-u-"], Header, 60),
    run("contentful-token", &["CFPAT-"], Token, 43),
    run("mapbox-token", &["sk.eyJ", "pk.eyJ", "tk.eyJ"], Dotted, 60),
    parts("mapbox-token", &["sk.", "pk.", "tk."], Token, &[(32, 128), (20, 30)]),
    run("dropbox-token", &["sl."], Header, 100),
    run("adobe-secret", &["p8e-"], Alnum, 30),
    run("intra42-secret", &["s-s4t2ud-", "s-s4t2af-"], Hex, 64),
    run("settlemint-token", &["sm_aat_", "sm_pat_", "sm_sat_"], Alnum, 16),
    run("beamer-token", &["b_"], Header, 44).mixed(),
    exactly("maxmind-key", &["_mmk"], Alnum, 0).after(Before::Chars(Word, 36)).bits(0.0),
    run(
        "facebook-token",
        &["EAAC", "EAAM", "EAAB", "EAAD", "EAAG", "EAAH", "EAAI", "EAAJ"],
        Alnum,
        60,
    ),
    run("facebook-token", &["EAACEdEose0cBA"], Alnum, 20),
    run("twitter-token", &["AAAAAAAAAAAAAAAAAAAAAA"], Percent, 60),
    run("linkedin-token", &["WPL_AP1.", "WPL_AP0."], Dotted, 16),
    run("adafruit-key", &["aio_"], Alnum, 28),
    run("blynk-secret", &["oa2-client-id_"], Token, 32),
    run("ionic-token", &["ion_"], Alnum, 42),
    run("flexport-token", &["shltm_"], Token, 40),
    run("voiceflow-key", &["VF."], Dotted, 41),
    run("zoho-token", &["1000."], Dotted, 65),
    run("teamwork-token", &["tkn.v1_"], Base64, 71),
    run("fullstory-key", &["na1.", "eu1."], Base64, 60),
    run("pubnub-key", &["pub-c-", "sub-c-", "sec-c-"], Token, 36),
    exactly("launchdarkly-key", &["sdk-", "api-", "mob-"], Token, 36).uuid(),
    exactly("configcat-key", &["configcat-sdk-1/"], Path, 45),
    run("devcycle-key", &["dvc_client_", "dvc_mobile_", "dvc_server_"], Word, 8).bits(2.0),
    run("canva-secret", &["cnvca"], Token, 51),
    run("samsara-token", &["samsara_api_"], Alnum, 26),
    run("statsig-key", &["secret-", "client-"], Alnum, 40).mixed(),
    run("onesignal-key", &["os_v2_app_", "os_v2_org_"], Alnum, 60),
    run("salesforce-token", &["3MVG9"], Header, 80),
    run("salesforce-token", &["!"], Dotted, 80).after(Before::Chars(Alnum, 15)),
    run("salad-key", &["salad_cloud_"], Word, 30),
    run("proof-key", &["prf_", "prf_cli_"], Token, 20).digits(),
    run("lichess-token", &["lip_"], Word, 16).digits(),
    run("wakatime-key", &["waka_"], Token, 36),
    run("aikido-secret", &["AIK_SECRET_", "AIK_CI_", "AIK_CLIENT_"], Alnum, 20),
    run("persona-key", &["persona_production_", "persona_sandbox_"], Token, 20),
    run("pinterest-token", &["pina_"], Token, 30),
    run("ebay-key", &["PRD-"], Token, 36).digits(),
    run("cfxre-key", &["cfxk_"], Token, 20).bits(0.0),
    exactly("checkly-key", &["cu_"], Hex, 32),
    run("ecostruxure-key", &["AK1"], Path, 50).mixed(),
    run("close-key", &["api_"], Dotted, 45).mixed(),
    run("courier-key", &["pk_prod_", "pk_test_", "dk_prod_"], Alnum, 28),
    run("facebook-app-token", &["|"], Token, 27).after(Before::Digits(15, 16)),
    // Hashes of passwords, as in `/etc/shadow`.
    run("password-hash", &["$2a$", "$2b$", "$2x$", "$2y$"], Crypt, 56),
    run("password-hash", &["$1$"], Crypt, 31),
    run("password-hash", &["$5$"], Crypt, 45),
    run("password-hash", &["$6$"], Crypt, 88),
    run("password-hash", &["$8$", "$9$"], Crypt, 52),
    run("password-hash", &["$y$", "$7$", "$gy$"], Crypt, 50),
    // Last: other tokens have this form too. `{"` in base64url: header, claims, signature.
    parts("jwt", &["eyJ", "ewog"], Token, &[(12, ANY), (8, ANY), (0, ANY)]),
    // Without a signature.
    parts("jwt", &["eyJ"], Token, &[(17, ANY), (17, ANY)]),
    // Encrypted: five parts, the second empty where the key is used directly.
    parts("jwt", &["eyJ"], Token, &[(12, ANY), (0, ANY), (8, ANY), (8, ANY), (8, ANY)]),
    // A token encoded twice.
    run("jwt", &["ZXlK"], Base64, 60),
];

#[cfg(test)]
mod tests {
    use super::super::Redactor;
    use super::super::chars::Class;
    use super::super::rules::{Look, Tail};
    use super::*;

    /// Draws characters, the same each time.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 40).unwrap_or(0) % n
        }

        /// So many letters and digits of a class. Signs come between them, never first or last.
        fn chars(&mut self, class: Class, n: usize) -> String {
            let of = |sign: fn(u8) -> bool| -> Vec<u8> {
                (b'!'..=b'~').filter(|b| class.has(*b) && sign(*b)).collect()
            };
            let plain = of(|b| b.is_ascii_alphanumeric());
            let signs = of(|b| matches!(b, b'_' | b'-'));
            (0..n)
                .map(|place| {
                    let sign =
                        !signs.is_empty() && place > 0 && place + 1 < n && self.below(16) == 0;
                    let alphabet = if sign { &signs } else { &plain };
                    char::from(alphabet[self.below(alphabet.len())])
                })
                .collect()
        }

        fn digits(&mut self, n: usize) -> String {
            (0..n).map(|_| char::from(b"123456789"[self.below(9)])).collect()
        }

        /// A token of a rule's form.
        fn token(&mut self, rule: &SecretRule, prefix: &str) -> String {
            let before = match rule.before {
                Before::Edge => String::new(),
                Before::Chars(class, n) => self.chars(class, n),
                Before::Digits(n, _) => self.digits(n),
            };
            let tail = match (rule.tail, rule.look) {
                (_, Look::Uuid) => [8, 4, 4, 4, 12].map(|n| self.chars(Class::Hex, n)).join("-"),
                (_, Look::Digits) => {
                    format!("{}_{}", self.digits(12), self.chars(Class::Alnum, 28))
                }
                (_, Look::Upper) => self.chars(Class::Upper, 36),
                (Tail::Run { class, n_min }, _) => self.chars(class, n_min),
                (Tail::Exactly { class, n }, _) => self.chars(class, n),
                (Tail::Parts { class, parts }, _) => {
                    let each = parts.iter().map(|(n, _)| self.chars(class, *n)).collect::<Vec<_>>();
                    each.join(".")
                }
                _ => unreachable!("no rule of a provider"),
            };
            format!("{before}{prefix}{tail}")
        }
    }

    #[test]
    fn every_well_formed_token_is_replaced() {
        let mut draw = Draw(7);
        let mut n = 0;
        let mut missed = std::collections::BTreeMap::new();
        for rule in PROVIDERS {
            for prefix in rule.prefixes {
                for _ in 0..100 {
                    let token = draw.token(rule, prefix);
                    for (left, right) in
                        [("", ""), ("x = \"", "\"\n"), ("see ", ", and"), ("(", ").")]
                    {
                        n += 1;
                        let clean = Redactor::new()
                            .redact(&format!("{left}{token}{right}"))
                            .text
                            .into_owned();
                        let body = &token[token.len().min(prefix.len() + 4)..];
                        if !clean.contains("[redacted:") || (body.len() > 8 && clean.contains(body))
                        {
                            missed.entry((rule.name, prefix)).or_insert_with(Vec::new).push(clean);
                        }
                    }
                }
            }
        }
        // A drawn token can look like a word: fewer than one in a thousand.
        let n_missed: usize = missed.values().map(Vec::len).sum();
        let shown: Vec<_> =
            missed.iter().map(|(rule, texts)| (rule, texts.len(), &texts[0])).collect();
        assert!(n_missed * 1000 <= n, "{n_missed} of {n}: {shown:#?}");
    }

    #[test]
    fn a_prefix_alone_stays() {
        // Some are tokens by themselves.
        let whole = |rule: &&SecretRule| !matches!(rule.tail, Tail::Run { n_min: 0, .. });
        for rule in PROVIDERS.iter().filter(whole) {
            for prefix in rule.prefixes {
                for text in
                    [format!("{prefix} "), format!("`{prefix}…`"), format!("{prefix}xxxxxxxx")]
                {
                    assert_eq!(Redactor::new().redact(&text).text, text, "{}", rule.name);
                }
            }
        }
    }
}
