"""The Storm home: Storm 2.8.3 from Maven Central, in one folder that machines mount or unpack."""
