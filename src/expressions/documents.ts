import { isNestedDeeper, type Json, keepExactNumbers } from '../model/json.ts';
import { formFields } from './forms.ts';
import { decodeUtf8 } from './trigger-body.ts';
import { ConversionError, MAX_DEPTH } from './values.ts';

/** Functions that parse a document inside a text. They throw `ConversionError`, which never quotes the text. */
export const DOCUMENT_FUNCTIONS: Readonly<Record<string, (text: string) => Json>> = {
  json(text) {
    if (isNestedDeeper(text, MAX_DEPTH)) {
      throw new ConversionError(`json() got a text that is nested deeper than ${MAX_DEPTH} levels`);
    }
    let value: Json;
    try {
      value = JSON.parse(text);
    } catch {
      throw new ConversionError('json() got a text that is not JSON');
    }
    return keepExactNumbers(value, text);
  },
  base64Decode(text) {
    const compact = text.replace(/\s+/g, '');
    if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(compact))
      throw new ConversionError('base64Decode() got a text that is not base64');
    const decoded = decodeUtf8(Buffer.from(compact, 'base64'));
    if (decoded === undefined) throw new ConversionError('base64Decode() got bytes that are not text in UTF-8');
    return decoded;
  },
  formDecode(text) {
    const fields = formFields(Buffer.from(text));
    if ('error' in fields) throw new ConversionError(`formDecode(): ${fields.error}`);
    return fields.value;
  },
};
