"""The Storm home: Storm 2.8.3 as Maven Central has it, in one folder that machines mount or unpack."""
