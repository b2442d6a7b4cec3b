/** Headers as lines of text that a person edits. */
export const headerLines = { write, read };

/** Headers of the connection, the browser or the page's login: a dry run cannot or must not set them. */
const NOT_OURS =
  /^(accept-encoding|authorization|connection|content-length|cookie2?|date|dnt|expect|host|keep-alive|origin|referer|te|trailer|transfer-encoding|upgrade|via|proxy-.*|sec-.*)$/i;

function write(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .filter(([name]) => !NOT_OURS.test(name))
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');
}

/** Throws an error that quotes the first line that is not a header. Repeated names get both values, as on servers. */
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
