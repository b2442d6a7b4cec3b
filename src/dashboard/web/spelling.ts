/** A text of the API as a sentence: with a capital and a full stop. */
export function sentence(text: string): string {
  const end = /[.!?…]$/.test(text) ? '' : '.';
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${end}`;
}

/** A name without its own words: `ownFact` and `own_fact` as "Own fact". */
export function spelledOut(name: string): string {
  const text = name
    .replaceAll('_', ' ')
    .replace(/([a-z0-9])([A-Z])/g, (_, before: string, after: string) => `${before} ${after.toLowerCase()}`);
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

/** The value in the table itself; undefined for what every object has, such as `constructor`. */
export function ownOf<Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
