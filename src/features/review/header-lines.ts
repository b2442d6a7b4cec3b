/** Header lines as a person edits them. */
export const headerLines = { write, read };

/** Of the connection, the browser's own, or the login of the page: a dry run cannot or must not set them. */
const NOT_OURS =
  /^(accept-encoding|authorization|connection|content-length|cookie2?|date|dnt|expect|host|keep-alive|origin|referer|te|trailer|transfer-encoding|upgrade|via|proxy-.*|sec-.*)$/i;

function write(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .filter(([name]) => !NOT_OURS.test(name))
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');
}

/** Throws an error that names the line that is not a header. A name that comes twice has both values, as servers read it. */
function read(text: string): Record<string, string> {
  const headers = new Map<string, [name: string, value: string]>();
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const [, name, value] = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new Error(`"${line.trim().slice(0, 80)}" is not a header; write one as "Name: value"`);
    }
    const [firstName, before] = headers.get(name.toLowerCase()) ?? [name];
    headers.set(name.toLowerCase(), [firstName, before === undefined ? value : `${before}, ${value}`]);
  }
  return Object.fromEntries(headers.values());
}
