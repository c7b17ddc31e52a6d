"""The site: pages of the catalogue's parts and of the studies, a start page, and a check of all links."""
