export type JsonPath = readonly (string | number)[];

const PLAIN_KEY = /^[\w$-]+$/;

/** `steps.notify.inputs.headers["x y"][0]`: keys that need no quotes are dotted, list positions stand in brackets. */
export function formatPath(path: JsonPath, isPlain: (key: string) => boolean = (key) => PLAIN_KEY.test(key)): string {
  let text = '';
  for (const key of path) {
    if (typeof key === 'number') text += `[${key}]`;
    else if (!isPlain(key)) text += `[${JSON.stringify(key)}]`;
    else text += text === '' ? key : `.${key}`;
  }
  return text;
}
