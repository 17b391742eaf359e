# expect: ok
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import formataddr, parseaddr

msg = EmailMessage()
msg["Subject"] = "Monthly report – May"
msg["From"] = formataddr(("Ann Müller", "ann@example.com"))
msg["To"] = "bob@example.com, carol@example.com"
msg.set_content("Hi,\n\nthe report is attached.\n")
msg.add_alternative("<p>Hi, the report is <b>attached</b>.</p>", subtype="html")
msg.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="report.csv")

with open("message.eml", "wb") as f:
    f.write(msg.as_bytes())

with open("message.eml", "rb") as f:
    parsed = message_from_bytes(f.read(), policy=policy.default)
print(parsed["subject"], "|", parseaddr(str(parsed["from"]))[1])
print([part.get_content_type() for part in parsed.walk()])
print(parsed.get_body(("plain",)).get_content().splitlines()[0])
for attachment in parsed.iter_attachments():
    print(attachment.get_filename(), attachment.get_payload(decode=True))
