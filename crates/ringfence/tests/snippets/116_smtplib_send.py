# expect: error no network
import smtplib
from email.mime.text import MIMEText

msg = MIMEText("The nightly job has finished.")
msg["Subject"] = "Nightly job"
msg["From"] = "job@example.com"
msg["To"] = "team@example.com"

with smtplib.SMTP("smtp.example.com", 587, timeout=10) as server:
    server.starttls()
    server.send_message(msg)
print("Mail sent")
