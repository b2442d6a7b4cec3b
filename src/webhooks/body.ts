import { bindsToJson, parseBody } from '../expressions/trigger-body.ts';

/** Whether the content type says JSON and the body is not: the one body that is refused, in every mode. */
export function isMalformedJson(body: Uint8Array, contentType: string | undefined): boolean {
  return bindsToJson(contentType) && 'error' in parseBody(body, contentType);
}
