/** Stands for the value of a secret. */
export const MASK = '***';

/** Names of headers, parameters and fields that hold a credential. */
export const CREDENTIAL_NAME =
  /auth(?!or\b)|cookie|token|secret|passw|passphrase|pwd|credential|jwt|assertion|session|bearer|signature|(api|access|private|subscription|webhook)[-_]?key|^(sig|key|pin|otp|pass)$/i;

/** The pieces of a query as written; a piece without a name is a value alone. */
export function queryOf(search: string): { readonly name: string | undefined; readonly value: string }[] {
  return search
    .replace(/^\?/, '')
    .split('&')
    .map((piece) => {
      const at = piece.indexOf('=');
      return at === -1 ? { name: undefined, value: piece } : { name: piece.slice(0, at), value: piece.slice(at + 1) };
    });
}

/** The password of a URL, and those values of its query that are credentials by their names; decoded. */
export function credentialsOf(url: string): string[] {
  if (!URL.canParse(url)) return [];
  const { password, search } = new URL(url);
  const named = queryOf(search).filter(({ name = '' }) => CREDENTIAL_NAME.test(decoded(name)));
  return [password, ...named.map(({ value }) => value)].map(decoded).filter((value) => value !== '');
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // As it is: what cannot be decoded is echoed as it came.
    return text;
  }
}

/**
 * An absolute URL as it may be stored and shown: user information, the values of the query and the fragment masked. One
 * that is masked already stays as it is.
 */
export function maskUrl(url: string): string {
  const [, origin = '', path = '', search, fragment] =
    /^([^/?#]*\/\/[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(url) ?? [];
  const query = search === undefined ? '' : `?${maskQuery(search.slice(1))}`;
  return `${origin.replace(/\/\/.*@/s, `//${MASK}@`)}${path}${query}${fragment === undefined ? '' : `#${MASK}`}`;
}

/** Names stay, values are masked; `keeps` says of a name whether its value stays too. */
export function maskQuery(query: string, keeps: (name: string) => boolean = () => false): string {
  if (query === '') return '';
  const pieces = queryOf(query).map(({ name, value }) => {
    if (name === undefined) return value === '' ? '' : MASK;
    return `${name}=${keeps(decoded(name)) ? value : MASK}`;
  });
  return pieces.join('&');
}

/** Whether a text that was stored holds a mask in the place of a secret. */
export function isMasked(text: string): boolean {
  return text === MASK || maskedPlaces.some((place) => place.test(text));
}

const maskedPlaces = [/^[a-z]+:\/\/\*\*\*@/i, /^[a-z]+:.*[?&](?:[^=&#]*=)?\*\*\*(?:&|#|$)/i, /^[a-z]+:.*#\*\*\*$/i];
