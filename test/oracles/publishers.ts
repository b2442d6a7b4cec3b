import './installed.ts';
import type { Server } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

export { validateSignature as verifyLine } from '@line/bot-sdk';
export { LinearWebhookClient } from '@linear/sdk/webhooks';
export { Webhook as SvixWebhook } from 'svix';

/**
 * The publishers' own code. Each function has only the types used here: checking the packages' own types takes the
 * compiler longer than the rest of the tests together.
 */
const require = createRequire(import.meta.url);

interface LegacyOctokit {
  sign(options: { secret: string; algorithm: 'sha1' }, payload: string): Promise<string>;
  verify(secret: string, payload: string, signature: string): Promise<boolean>;
}
interface Stripe {
  webhooks: {
    generateTestHeaderString(options: { payload: string; secret: string; timestamp: number }): string;
    constructEvent(payload: Buffer, header: string, secret: string): unknown;
    signature: { verifyHeader(payload: Buffer, header: string, secret: string, toleranceSeconds: number): boolean };
  };
}
interface Bolt {
  HTTPReceiver: new (options: { signingSecret: string; endpoints: string[]; logLevel: string }) => BoltReceiver;
  verifySlackRequest(options: { signingSecret: string; body: string; headers: object }): void;
}
interface BoltReceiver {
  init(app: { processEvent(): Promise<void> }): void;
  start(port: number): Promise<Server>;
  stop(): Promise<void>;
}
interface Shopify {
  shopifyApi(config: object): { webhooks: { validate(request: object): Promise<{ valid: boolean }> } };
}
interface ShopifyRuntime {
  createSHA256HMAC(secret: string, payload: string): Promise<string>;
}
interface Twilio {
  getExpectedTwilioSignature(token: string, url: string, params: object): string;
  getExpectedBodyHash(body: string): string;
  validateRequest(token: string, signature: string, url: string, params: object): boolean;
  validateRequestWithBody(token: string, signature: string, url: string, body: string): boolean;
}
interface SquareHmac {
  createHmacOverride(payload: string, key: string): Promise<string>;
}
interface SquareHelper {
  WebhooksHelper: { verifySignature(options: Record<string, string>): Promise<boolean> };
}
interface DiscordInteractions {
  verifyKey(body: string, signature: string, timestamp: string, publicKey: string): Promise<boolean>;
}
interface MailgunClient {
  validateWebhook(timestamp: string, token: string, signature: string): boolean;
}
interface SendGrid {
  EventWebhook: new () => {
    convertPublicKeyToECDSA(key: string): unknown;
    verifySignature(key: unknown, body: string, signature: string, timestamp: string): boolean;
  };
}
interface Paddle {
  Paddle: new (
    apiKey: string,
  ) => {
    webhooks: { isSignatureValid(body: string, secret: string, signature: string): Promise<boolean> };
  };
}
interface AdyenHmac {
  default: new () => {
    calculateHmac(notification: object, key: string): string;
    validateHMAC(notification: object, key: string): boolean;
  };
}
interface BoxUtils {
  computeWebhookSignature(body: string, headers: object, key: string): Promise<string | null>;
}
interface BoxWebhooks {
  WebhooksManager: { validateMessage(body: string, headers: object, key: string): Promise<boolean> };
}
interface HubSpot {
  Signature: {
    getSignature(method: string, version: 'v3', options: object): string;
    isValid(options: object): boolean;
  };
}
interface Rivet {
  HttpReceiver: new (options: { port: number; webhooksSecretToken: string; endpoints: string }) => RivetReceiver;
}
interface RivetReceiver {
  init(options: { eventEmitter: { emit(): Promise<void> } }): void;
  start(port: number): Promise<Server>;
  stop(): Promise<void>;
}

export const legacyOctokit = require('octokit-wm-v3') as LegacyOctokit;
export const stripe = require('stripe') as Stripe;
export const bolt = require('@slack/bolt') as Bolt;
require('@shopify/shopify-api/adapters/node');
export const shopify = require('@shopify/shopify-api') as Shopify;
export const shopifyRuntime = require('@shopify/shopify-api/runtime') as ShopifyRuntime;
export const twilio = require('twilio') as Twilio;
// Loaded by file: the package's root loads two seconds of API clients that are not used here.
const squareFolder = join(require.resolve('square'), '..');
export const squareHmac = require(join(squareFolder, 'core/crypto/createHmacOverride.js')) as SquareHmac;
export const squareHelper = require(join(squareFolder, 'wrapper/WebhooksHelper.js')) as SquareHelper;
export const discord = require('discord-interactions') as DiscordInteractions;
export const Mailgun = require('mailgun-js') as new (options: object) => MailgunClient;
export const sendGrid = new (require('@sendgrid/eventwebhook') as SendGrid).EventWebhook();
const { Paddle } = require('@paddle/paddle-node-sdk') as Paddle;
export const paddleWebhooks = new Paddle('no key of the API').webhooks;
// Also by file, for the same reason.
const adyenFolder = join(require.resolve('@adyen/api-library'), '..');
const { default: HmacValidator } = require(join(adyenFolder, 'utils/hmacValidator.js')) as AdyenHmac;
export const adyenHmac = new HmacValidator();
const boxFolder = join(require.resolve('box-node-sdk'), '..');
export const boxUtils = require(join(boxFolder, 'internal/utils.js')) as BoxUtils;
export const boxWebhooks = (require(join(boxFolder, 'managers/webhooks.js')) as BoxWebhooks).WebhooksManager;
const hubSpotFolder = join(require.resolve('@hubspot/api-client'), '..');
export const hubSpot = (require(join(hubSpotFolder, 'src/utils/signature.js')) as HubSpot).Signature;
const rivet = require('@zoom/rivet/meetings') as Rivet;

interface Question {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The answer of Zoom's own receiver, running on loopback with this token. */
export async function askRivet(question: Question, secretToken: string) {
  const receiver = new rivet.HttpReceiver({ port: 0, webhooksSecretToken: secretToken, endpoints: '/hook' });
  receiver.init({ eventEmitter: { emit: async () => {} } });
  return ask(receiver, question);
}

/** The answer of Slack's own receiver, running on loopback with this secret. */
export async function askBolt(question: Question, signingSecret: string) {
  const receiver = new bolt.HTTPReceiver({ signingSecret, endpoints: ['/hook'], logLevel: 'error' });
  receiver.init({ processEvent: async () => {} });
  return ask(receiver, question);
}

async function ask(receiver: Pick<RivetReceiver, 'start' | 'stop'>, { headers, body }: Question) {
  const server = await receiver.start(0);
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the receiver listens on no port');
  try {
    const response = await fetch(`http://127.0.0.1:${address.port}/hook`, { method: 'POST', headers, body });
    return { status: response.status, text: await response.text() };
  } finally {
    server.closeAllConnections();
    await receiver.stop();
  }
}
