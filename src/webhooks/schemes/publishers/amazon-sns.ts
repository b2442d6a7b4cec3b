import type { Handshake } from '../handshake.ts';
import { part } from '../spec.ts';
import { jsonObject } from '../values.ts';
import type { PublisherRow } from './row.ts';

// Not just any label: s3-eu-west-1 would match too, and anyone can have a bucket with the name sns.
const HOST = /sns\.[a-z]{2}(?:-[a-z]+){1,3}-\d{1,2}\.amazonaws\.com(?:\.cn)?/;

/** One line for the name and one for the value. */
const line = (name: string, options?: Parameters<typeof part.field>[1]) =>
  part.field([name], { isLine: true, ...options });

/** Sent signed when a subscription is made; its URL must be called. Once verified, its topic is the trigger's topic. */
const subscriptionConfirmation: Handshake = {
  name: 'SubscriptionConfirmation',
  method: 'POST',
  needsVerification: true,
  recognises: ({ body }) => jsonObject(body).Type === 'SubscriptionConfirmation',
  visits({ body }) {
    const { SubscribeURL: text, TopicArn: topic, Token: token } = jsonObject(body);
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

/**
 * Messages over HTTPS. All of AWS uses the same certificates, and anyone can have topics there, so the trigger's key is
 * the ARN of the only topic that counts. MessageAttributes are not signed.
 */
export const AMAZON_SNS: PublisherRow = {
  name: 'AmazonSns',
  title: 'Amazon SNS',
  header: '{field:Signature}',
  algorithm: 'rsaSha256',
  encoding: 'base64',
  // A notification has no Token and no SubscribeURL, a confirmation no Subject. Every member after Message is one line.
  signs: [
    line('Message', { isFree: true }),
    line('MessageId'),
    line('Subject', { isOptional: true }),
    line('SubscribeURL', { isOptional: true }),
    line('Timestamp'),
    line('Token', { isOptional: true }),
    line('TopicArn', { isKeyName: true }),
    line('Type', { form: /^(?:Notification|(?:Subscription|Unsubscribe)Confirmation)$/ }),
  ],
  timestamp: { path: ['Timestamp'] },
  unit: 'rfc3339',
  others: {
    document: { path: ['Message'] },
    algorithmField: { field: { path: ['SignatureVersion'] }, algorithms: { '1': 'rsaSha1', '2': 'rsaSha256' } },
    certificate: {
      url: { field: { path: ['SigningCertURL'] } },
      host: HOST,
      path: /\/SimpleNotificationService-[0-9a-f]{16,64}\.pem/,
      keyIs: 'the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:orders',
      keyForm: /arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?/,
    },
  },
  eventType: '{field:Type}',
  eventId: '{field:MessageId}',
  handshakes: [subscriptionConfirmation],
  logs: '{trigger.envelope.Type} {trigger.envelope.MessageId} arrived',
  clickPath: [
    'Amazon SNS, **Topics**, your topic: its **ARN** is the key of the trigger. It is not a secret: it names the only accepted topic, because everyone at AWS can have a topic that sends to your URL.',
    'Set the attribute `SignatureVersion` of the topic to `2` (SHA-256): `aws sns set-topic-attributes --topic-arn "$SNS_TOPIC_ARN" --attribute-name SignatureVersion --attribute-value 2`.',
    'Start Sluice with the trigger below: it has to answer the subscription.',
    '**Create subscription**, protocol **HTTPS**, endpoint `{URL}`. Leave **Enable raw message delivery** off: raw messages are not signed.',
  ],
  toleranceSeconds: 7200,
  trigger: {
    webhookHmacKey: 'env:SNS_TOPIC_ARN',
  },
  retries: {
    when: 'a delivery that failed',
    howOften: 'by default three times, 20 seconds apart',
    newlySigned: false,
    source: 'https://docs.aws.amazon.com/sns/latest/dg/SendMessageToHttp.retry.html, read 2026-11',
  },
  source:
    'https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html and sns-validator 0.3.5, read 2026-11',
  certainty: 'package',
};
