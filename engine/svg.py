"""Writer of SVG documents: escapes texts and attributes, and rounds lengths to a tenth of a pixel.

Every picture of the project uses this module. The style sheet and the layout belong to each picture.
"""

import html


def svg_document(width: float, height: float, title: str, style: str, *content: str) -> str:
    """Return a complete document of this size in pixels.

    `title` is shown as a tooltip and read by screen readers. `style` is CSS. `content` is elements, the background first.

    >>> print(svg_document(20, 10.5, "A & B", "rect { stroke: red; }", svg_element("rect", width=4.04)))
    <svg xmlns="http://www.w3.org/2000/svg" width="20" height="10.5" viewBox="0 0 20 10.5" role="img">
    <title>A &amp; B</title>
    <style>
    rect { stroke: red; }
    </style>
    <rect width="4"/>
    </svg>
    <BLANKLINE>
    """
    size = f'width="{svg_number(width)}" height="{svg_number(height)}" viewBox="0 0 {svg_number(width)} {svg_number(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, svg_element("title", svg_text(title)), f"<style>\n{style}\n</style>", *content, "</svg>\n"])


def svg_element(tag: str, *content: str, **attributes: str | float) -> str:
    """Return an element. An underscore in the name of an attribute becomes a hyphen, one at its end is dropped.

    `content` is SVG already: other elements, or a text from `svg_text`. An attribute with an empty text is left out.

    >>> svg_element("text", svg_text("1 < 2"), x=0.25, class_="small", marker_end="url(#arrow)")
    '<text x="0.2" class="small" marker-end="url(#arrow)">1 &lt; 2</text>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{svg_text(value) if isinstance(value, str) else svg_number(value)}"'
        for name, value in attributes.items()
        if value != ""
    )
    return f"<{tag}{written}>{''.join(content)}</{tag}>" if content else f"<{tag}{written}/>"


def svg_number(value: float) -> str:
    """Return a length or a coordinate with at most one decimal.

    >>> svg_number(12.04), svg_number(3.25)
    ('12', '3.2')
    """
    return f"{value:.1f}".removesuffix(".0")


def svg_text(text: str) -> str:
    """Return a text for an element or an attribute. Characters that XML cannot contain become `?`.

    >>> svg_text("<b>\\0")
    '&lt;b&gt;?'
    """
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "?" for character in text)
    return html.escape(text)
