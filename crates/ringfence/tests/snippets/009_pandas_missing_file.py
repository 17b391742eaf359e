# expect: error FileNotFoundError; needs pandas
import pandas as pd

# Load the uploaded data set and show the first rows
df = pd.read_csv("customer_churn.csv")
print(df.shape)
print(df.head())
print(df.describe())
