import type { JsonObject } from '../../../model/json.ts';
import type { Handshake, HandshakeRequest } from '../handshake.ts';
import type { SignatureSpec, SignedField } from '../spec.ts';
import { isObject, parseJson } from '../values.ts';

// Not any label: s3-eu-west-1 would be one, and everyone may have a bucket that is called sns.
const HOST = /sns\.[a-z]{2}(?:-[a-z]+){1,3}-\d{1,2}\.amazonaws\.com(?:\.cn)?/;

const SIGNED: Readonly<Record<string, readonly string[]>> = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  SubscriptionConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
  UnsubscribeConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
};

/** A line for each name and each value. Every member behind Message is one line, so that these are read from the end. */
function signedOf(body: JsonObject): readonly SignedField[] | string {
  const type = typeof body.Type === 'string' ? body.Type : '';
  const names = Object.hasOwn(SIGNED, type) ? SIGNED[type] : undefined;
  if (names === undefined) return 'Type is not a known type';
  return names
    .filter((name) => name !== 'Subject' || (body.Subject !== undefined && body.Subject !== null))
    .map((name) => ({ name, value: body[name], isFree: name === 'Message' }));
}

/** Sent, signed, when a subscription is made: its URL has to be called. Verified, its topic is the one that the trigger names. */
const subscriptionConfirmation: Handshake = {
  name: 'SubscriptionConfirmation',
  method: 'POST',
  needsVerification: true,
  recognises: (request) => messageOf(request)?.Type === 'SubscriptionConfirmation',
  visits(request) {
    const { SubscribeURL: text, TopicArn: topic, Token: token } = messageOf(request) ?? {};
    if (typeof text !== 'string' || typeof topic !== 'string' || !URL.canParse(text)) return undefined;
    const url = new URL(text);
    const { searchParams: query } = url;
    const isOwn = url.protocol === 'https:' && HOST.exec(url.host)?.[0] === url.host && url.pathname === '/';
    const isConfirmation =
      query.get('Action') === 'ConfirmSubscription' && query.get('TopicArn') === topic && query.get('Token') === token;
    return isOwn && isConfirmation && url.username === '' && url.password === '' ? url.href : undefined;
  },
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

function messageOf({ body }: HandshakeRequest): JsonObject | undefined {
  const json = parseJson(body);
  return isObject(json) ? json : undefined;
}

/**
 * Messages over HTTPS. The certificates are those of all of AWS, and everyone has topics there: the key of the trigger is the ARN
 * of the one topic that counts. MessageAttributes are not signed.
 */
export const amazonSns: SignatureSpec = {
  name: 'AmazonSns',
  headers: [],
  signatureFields: [{ path: ['Signature'] }],
  algorithm: 'rsaSha256',
  algorithmField: { field: { path: ['SignatureVersion'] }, algorithms: { '1': 'rsaSha1', '2': 'rsaSha256' } },
  encoding: 'base64',
  payload: { strategy: 'BodyFields', fields: { joined: 'lines', list: signedOf, named: 'TopicArn' } },
  timestamp: { in: 'body', field: { path: ['Timestamp'] }, unit: 'rfc3339' },
  certificate: {
    url: { field: { path: ['SigningCertURL'] } },
    host: HOST,
    path: /\/SimpleNotificationService-[0-9a-f]{16,64}\.pem/,
    keyIs: 'the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:orders',
    keyForm: /arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?/,
  },
  handshakes: [subscriptionConfirmation],
  source:
    'https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html and sns-validator 0.3.5, read 2026-11',
};
