/**
 * On every answer of the receive endpoint, which has one origin with the dashboard. What senders, called hosts and manifests
 * wrote must do nothing in a browser: there it could act with the session of an operator.
 */
export const INERT_HEADERS = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
} as const;

export const PLAIN_TEXT = 'text/plain; charset=utf-8';

/** For people: what `inertType` takes. */
export const INERT_TYPES = 'JSON, text/plain and text/csv; XML is sent as text/plain';

const MEDIA_TYPE = /^[\t ]*([\w!#$&^.+-]+\/[\w!#$&^.+-]+)[\t ]*(;.*)?$/;
const GIVEN = /^(?:(?:application|text)\/json|application\/[\w!#$&^.+-]+\+json|text\/(?:plain|csv))$/;
const XML = /^(?:(?:application|text)\/xml|application\/(?!xhtml\+)[\w!#$&^.+-]+\+xml)$/;

/**
 * The type under which content that others wrote is sent, or undefined if browsers may run it as that type. Only listed types
 * are sent, so that a type that browsers learn to run later is not. Parameters are left out: bodies are sent in UTF-8,
 * whatever charset their writer names.
 */
export function inertType(contentType: string): string | undefined {
  const [, type = '', parameters] = MEDIA_TYPE.exec(contentType.toLowerCase()) ?? [];
  // Browsers run scripts in XML.
  if (XML.test(type)) return PLAIN_TEXT;
  if (!GIVEN.test(type)) return undefined;
  return parameters === undefined ? type : `${type}; charset=utf-8`;
}

/** The answer with a type that browsers do not run. */
export function asInert<Answer extends { readonly contentType: string }>(answer: Answer): Answer {
  return { ...answer, contentType: inertType(answer.contentType) ?? PLAIN_TEXT };
}

const RECEIVE = /^\/flows\/api\/webhook(?:[/?#]|$)/;

/** Whether a URL is the receive endpoint's, also where it leads to no trigger. */
export function isOfReceiveEndpoint(url: string): boolean {
  return RECEIVE.test(url);
}
