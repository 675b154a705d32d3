"""How results are shown: result to text, pure, without reading or writing anything."""
