/**
 * On every answer of the receive endpoint, which shares its origin with the dashboard. Content from senders, called
 * hosts and manifests must be inert in a browser: otherwise it could act with an operator's session.
 */
export const INERT_HEADERS = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
} as const;

export const PLAIN_TEXT = 'text/plain; charset=utf-8';

/** The types that `inertType` accepts, for people. */
export const INERT_TYPES = 'JSON, text/plain and text/csv; XML is sent as text/plain';

const MEDIA_TYPE = /^[\t ]*([\w!#$&^.+-]+\/[\w!#$&^.+-]+)[\t ]*(;.*)?$/;
const GIVEN = /^(?:(?:application|text)\/json|application\/[\w!#$&^.+-]+\+json|text\/(?:plain|csv))$/;
const XML = /^(?:(?:application|text)\/xml|application\/(?!xhtml\+)[\w!#$&^.+-]+\+xml)$/;

/**
 * The type for sending other parties' content, or undefined if browsers might execute it. Only listed types are sent,
 * so that a type that browsers learn to execute later is not. Parameters are left out: bodies are sent in UTF-8,
 * whatever charset their writer named.
 */
export function inertType(contentType: string): string | undefined {
  const [, type = '', parameters] = MEDIA_TYPE.exec(contentType.toLowerCase()) ?? [];
  // Browsers run scripts in XML.
  if (XML.test(type)) return PLAIN_TEXT;
  if (!GIVEN.test(type)) return undefined;
  return parameters === undefined ? type : `${type}; charset=utf-8`;
}

/** The answer with a type that browsers do not execute. */
export function asInert<Answer extends { readonly contentType: string }>(answer: Answer): Answer {
  return { ...answer, contentType: inertType(answer.contentType) ?? PLAIN_TEXT };
}

const RECEIVE = /^\/flows\/api\/webhook(?:[/?#]|$)/;

/** Whether a URL belongs to the receive endpoint, even if it leads to no trigger. */
export function isOfReceiveEndpoint(url: string): boolean {
  return RECEIVE.test(url);
}
