"""Parts of the report page: charts as plain SVG, tables, sections, and the template around them."""
