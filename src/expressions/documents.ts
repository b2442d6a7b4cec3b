import { decodeForm, MAX_FORM_FIELDS } from '../model/form.ts';
import { isNestedDeeper, type Json, keepExactNumbers } from '../model/json.ts';
import { decodeUtf8, fieldsOf } from './trigger-body.ts';
import { ConversionError, MAX_DEPTH } from './values.ts';

/** Functions that read a document which is a text in another one. They throw `ConversionError`, which quotes nothing of the text. */
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
    const fields = decodeForm(Buffer.from(text));
    if (fields === undefined) throw new ConversionError(`formDecode() got more than ${MAX_FORM_FIELDS} fields`);
    const toUtf8 = (bytes: string) => Buffer.from(bytes, 'latin1').toString();
    return fieldsOf(fields.map(({ name, value }) => [toUtf8(name), toUtf8(value)]));
  },
};
