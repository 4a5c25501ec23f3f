"""A package of somebody else's, as pip would install it (site/), and one that cannot be imported (broken/)."""
