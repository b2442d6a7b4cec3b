import type { Json, JsonObject } from '../../../model/json.ts';
import { jsonSample, type SignatureSpec, type SignedField } from '../spec.ts';
import { isObject } from '../values.ts';

const ITEM = ['notificationItems', '0', 'NotificationRequestItem'] as const;

/** What a notification about a payment signs: nothing of its date, its reason or whether it is a test. */
function signedOfItem(body: JsonObject): readonly SignedField[] | string {
  const items: Json | undefined = body.notificationItems;
  // A second item would be signed by nothing.
  if (!Array.isArray(items) || items.length !== 1) return 'notificationItems has not exactly one item';
  const item: Json | undefined = isObject(items[0]) ? items[0].NotificationRequestItem : undefined;
  if (!isObject(item) || !isObject(item.amount)) return 'the item of notificationItems is not a notification';
  // The other form signs bytes that begin with a brace.
  if (typeof item.pspReference !== 'string' || !/^[A-Za-z0-9]/.test(item.pspReference)) {
    return 'pspReference is not a reference';
  }
  return [
    { name: 'pspReference', value: item.pspReference },
    { name: 'originalReference', value: item.originalReference ?? '' },
    { name: 'merchantAccountCode', value: item.merchantAccountCode },
    { name: 'merchantReference', value: item.merchantReference ?? '', isFree: true },
    { name: 'amount.value', value: item.amount.value },
    { name: 'amount.currency', value: item.amount.currency },
    { name: 'eventCode', value: item.eventCode },
    { name: 'success', value: item.success },
  ];
}

/** Webhooks of the newer products: banking, management, disputes. */
const ofWholeBody: SignatureSpec = {
  name: 'Adyen',
  headers: [{ signature: 'HmacSignature' }],
  algorithm: 'sha256',
  encoding: 'base64',
  payload: { strategy: 'RawBody', isJsonObject: true },
  keyEncoding: 'hex',
  source: '@adyen/api-library 32.1.0, read 2026-11',
};

/** Standard webhooks of payments carry the signature in the body and sign some of its members. */
export const adyen: SignatureSpec = {
  name: 'Adyen',
  headers: [],
  signatureFields: [{ path: [...ITEM, 'additionalData', 'hmacSignature'] }],
  requestForm: ofWholeBody,
  algorithm: 'sha256',
  encoding: 'base64',
  payload: { strategy: 'BodyFields', fields: { joined: 'colons', list: signedOfItem } },
  keyEncoding: 'hex',
  // Anything else makes Adyen repeat the notification.
  acceptedResponse: { contentType: 'text/plain', body: '[accepted]' },
  sample: jsonSample({
    live: 'false',
    notificationItems: [
      {
        NotificationRequestItem: {
          pspReference: '7914073381342284',
          merchantAccountCode: 'TestMerchant',
          merchantReference: 'TestPayment-1407325143704',
          amount: { value: 1130, currency: 'EUR' },
          eventCode: 'AUTHORISATION',
          success: 'true',
        },
      },
    ],
  }),
  source: '@adyen/api-library 32.1.0, read 2026-11',
};
