package kernelsearch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.CheckIndex;
import org.apache.lucene.index.CodecReader;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.DocValuesType;
import org.apache.lucene.index.FieldInfo;
import org.apache.lucene.index.FilterCodecReader;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.LogDocMergePolicy;
import org.apache.lucene.index.MultiBits;
import org.apache.lucene.index.MultiDocValues;
import org.apache.lucene.index.MultiReader;
import org.apache.lucene.index.MultiTerms;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.SegmentInfos;
import org.apache.lucene.index.SlowCodecReaderWrapper;
import org.apache.lucene.index.StoredFields;
import org.apache.lucene.index.Term;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.FieldDoc;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.QueryVisitor;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortField;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.search.similarities.Similarity;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.NoLockFactory;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.FixedBitSet;

/**
 * The loops that run inside the JVM: exporting postings, analysing texts, searching. Arguments and results are blocks of bytes, because
 * one call per posting or per hit would be slow. Uses only what Lucene 9 and Lucene 10 have in common.
 */
public final class Bridge {
  private Bridge() {}

  public static IndexReader open(String path) throws IOException {
    return DirectoryReader.open(FSDirectory.open(Paths.get(path)));
  }

  /**
   * The report of Lucene's CheckIndex on the latest commit of an index; empty where nothing is wrong. No lock is taken, so that an index
   * in a read-only folder can be checked.
   */
  public static String check(String path) throws IOException {
    ByteArrayOutputStream report = new ByteArrayOutputStream();
    try (FSDirectory directory = FSDirectory.open(Paths.get(path), NoLockFactory.INSTANCE);
        CheckIndex check = new CheckIndex(directory)) {
      check.setInfoStream(new PrintStream(report, true, StandardCharsets.UTF_8.name()));
      check.setThreadCount(1);
      return check.checkIndex().clean ? "" : "not clean\n" + report.toString(StandardCharsets.UTF_8.name());
    }
  }

  /** Compares the checksums of all files of the latest commit of an index; throws CorruptIndexException where one differs. */
  public static void verify(String path) throws IOException {
    try (FSDirectory directory = FSDirectory.open(Paths.get(path), NoLockFactory.INSTANCE);
        DirectoryReader reader = DirectoryReader.open(directory)) {
      for (LeafReaderContext leaf : reader.leaves()) {
        leaf.reader().checkIntegrity();
      }
    }
  }

  /** A segment without some of its documents. */
  private static final class Remaining extends FilterCodecReader {
    private final Bits live;
    private final int count;

    Remaining(CodecReader segment, Bits live, int count) {
      super(segment);
      this.live = live;
      this.count = count;
    }

    @Override
    public Bits getLiveDocs() {
      return live;
    }

    @Override
    public int numDocs() {
      return count;
    }

    @Override
    public CacheHelper getCoreCacheHelper() {
      return null;
    }

    @Override
    public CacheHelper getReaderCacheHelper() {
      return null;
    }
  }

  /** A segment's documents whose identifier is none of `ids`; counts the others in `found`. */
  private static CodecReader without(LeafReader leaf, String field, BytesRef[] ids, int[] found) throws IOException {
    FixedBitSet live = new FixedBitSet(Math.max(1, leaf.maxDoc()));
    live.set(0, leaf.maxDoc());
    Bits alive = leaf.getLiveDocs();
    for (int doc = 0; alive != null && doc < leaf.maxDoc(); doc++) {
      if (!alive.get(doc)) {
        live.clear(doc);
      }
    }
    Terms terms = leaf.terms(field);
    TermsEnum walk = terms == null ? null : terms.iterator();
    PostingsEnum postings = null;
    for (int i = 0; walk != null && i < ids.length; i++) {
      if (walk.seekExact(ids[i])) {
        postings = walk.postings(postings, PostingsEnum.NONE);
        for (int doc = postings.nextDoc(); doc != PostingsEnum.NO_MORE_DOCS; doc = postings.nextDoc()) {
          if (live.get(doc)) {
            live.clear(doc);
            found[i]++;
          }
        }
      }
    }
    return new Remaining(SlowCodecReaderWrapper.wrap(leaf), live, live.cardinality());
  }

  /**
   * Writes a new index of one segment into the empty folder `into`: the documents of the index `old` without those whose identifiers, UTF-8
   * bytes of the given sizes (int32 each), are listed, then those of the index `added` unless that is empty. Nothing of deleted documents
   * remains, so that statistics and document numbers are those of an index built from what remains. Returns the number of documents
   * with each identifier in `old` (int32 each).
   */
  public static ByteBuffer rewrite(String old, String added, String into, String field, byte[] ids, byte[] sizes) throws IOException {
    int[] ends = starts(sizes);
    BytesRef[] listed = new BytesRef[ends.length - 1];
    for (int i = 0; i < listed.length; i++) {
      listed[i] = new BytesRef(ids, ends[i], ends[i + 1] - ends[i]);
    }
    int[] found = new int[listed.length];
    try (FSDirectory source = FSDirectory.open(Paths.get(old), NoLockFactory.INSTANCE);
        FSDirectory target = FSDirectory.open(Paths.get(into));
        DirectoryReader reader = DirectoryReader.open(source);
        DirectoryReader more = added.isEmpty() ? null : DirectoryReader.open(FSDirectory.open(Paths.get(added)))) {
      List<CodecReader> segments = new ArrayList<>();
      for (LeafReaderContext leaf : reader.leaves()) {
        segments.add(without(leaf.reader(), field, listed, found));
      }
      for (LeafReaderContext leaf : more == null ? List.<LeafReaderContext>of() : more.leaves()) {
        segments.add(SlowCodecReaderWrapper.wrap(leaf.reader()));
      }
      // Unlike the default, this policy keeps the order of documents.
      IndexWriterConfig config = new IndexWriterConfig().setMergePolicy(new LogDocMergePolicy());
      config.setIndexCreatedVersionMajor(SegmentInfos.readLatestCommit(source).getIndexCreatedVersionMajor());
      try (IndexWriter writer = new IndexWriter(target, config)) {
        writer.addIndexes(segments.toArray(new CodecReader[0]));
        writer.forceMerge(1);
        writer.commit();
      }
    }
    return of(found, found.length);
  }

  /** Standard error, which collects what a thread prints between `startCapture` and `endCapture` instead of printing it. */
  private static final class CapturingStream extends PrintStream {
    private final PrintStream original;
    private final ThreadLocal<ByteArrayOutputStream> captured = new ThreadLocal<>();

    CapturingStream(PrintStream original) {
      super(original, true);
      this.original = original;
    }

    @Override
    public void write(byte[] bytes, int offset, int length) {
      ByteArrayOutputStream into = captured.get();
      if (into == null) {
        original.write(bytes, offset, length);
      } else {
        into.write(bytes, offset, length);
      }
    }

    @Override
    public void write(int value) {
      write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void print(String text) {
      byte[] bytes = String.valueOf(text).getBytes(StandardCharsets.UTF_8);
      write(bytes, 0, bytes.length);
    }

    @Override
    public void println(String text) {
      print(text + System.lineSeparator());
    }

    @Override
    public void println(Object value) {
      println(String.valueOf(value));
    }
  }

  /**
   * From here to `endCapture`, what this thread prints on standard error is collected. Anserini catches exceptions, prints their stack
   * trace and goes on as if nothing was found: the trace is the only sign of them.
   */
  public static void startCapture() {
    capturingStream().captured.set(new ByteArrayOutputStream());
  }

  /** Returns what this thread has printed on standard error since `startCapture`. */
  public static String endCapture() {
    CapturingStream stream = capturingStream();
    ByteArrayOutputStream text = stream.captured.get();
    stream.captured.remove();
    return text == null ? "" : new String(text.toByteArray(), StandardCharsets.UTF_8);
  }

  private static synchronized CapturingStream capturingStream() {
    if (!(System.err instanceof CapturingStream)) {
      System.setErr(new CapturingStream(System.err));
    }
    return (CapturingStream) System.err;
  }

  /** Several indexes as one: document numbers follow each other in the order of the readers, statistics are summed. */
  public static IndexReader together(IndexReader[] readers) throws IOException {
    return new MultiReader(readers);
  }

  /** The major release of the Lucene that created an index. */
  public static int creator(String path) throws IOException {
    try (FSDirectory directory = FSDirectory.open(Paths.get(path))) {
      return SegmentInfos.readLatestCommit(directory).getIndexCreatedVersionMajor();
    }
  }

  /**
   * Anserini's order of hits: score, then identifier; in an index of Lucene 8, whose identifiers have doc values of another type, score,
   * then document number.
   */
  public static Sort order(IndexReader reader) {
    for (LeafReaderContext leaf : reader.leaves()) {
      FieldInfo id = leaf.reader().getFieldInfos().fieldInfo("id");
      if (id != null && id.getDocValuesType() != DocValuesType.NONE && id.getDocValuesType() != DocValuesType.BINARY) {
        return new Sort(SortField.FIELD_SCORE, SortField.FIELD_DOC);
      }
    }
    return new Sort(SortField.FIELD_SCORE, new SortField("id", SortField.Type.STRING_VAL));
  }

  public static IndexSearcher searcher(IndexReader reader, Similarity similarity) {
    IndexSearcher searcher = new IndexSearcher(reader);
    searcher.setSimilarity(similarity);
    return searcher;
  }

  /** BM25 for queries whose weights stand in for the inverse document frequency, as Anserini's BM25PRF ranks. */
  public static class BM25WithoutIdf extends BM25Similarity {
    public BM25WithoutIdf(float k1, float b) {
      super(k1, b);
    }

    @Override
    protected float idf(long frequency, long documents) {
      return 1;
    }
  }

  /** Lucene's statistics of a field: documents with it, tokens, postings (-1: not stored), then 1 or 0 for positions. */
  public static long[] statistics(IndexReader reader, String field) throws IOException {
    Terms terms = MultiTerms.getTerms(reader, field);
    if (terms == null) {
      return new long[] {0, 0, 0, 0};
    }
    return new long[] {terms.getDocCount(), terms.getSumTotalTermFreq(), terms.getSumDocFreq(), terms.hasPositions() ? 1 : 0};
  }

  private static ByteBuffer direct(long bytes) {
    if (bytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("a block of " + bytes + " bytes does not fit a buffer: ask for fewer documents");
    }
    return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
  }

  /** A buffer for `analyze` and `search`, which the caller reuses: allocating one takes longer than filling it. */
  public static ByteBuffer buffer(int bytes) {
    return direct(bytes);
  }

  private static ByteBuffer of(int[] values, int count) {
    ByteBuffer buffer = direct(4L * count);
    buffer.asIntBuffer().put(values, 0, count);
    return buffer;
  }

  private static ByteBuffer of(byte[] values, int count) {
    ByteBuffer buffer = direct(count);
    buffer.duplicate().put(values, 0, count);
    return buffer;
  }

  /**
   * One pass over a field's postings. Returns: term bytes, term byte lengths (int32), df (int32), cf (int64), and per document, deleted
   * ones included as empty: distinct terms (int32), tokens (int32), norm byte (int8), live (int8). With `keep` also what `rows` gives for
   * all documents, for fields whose postings fit into memory: a second pass over the terms costs as much as the first where most of them
   * are rare.
   */
  public static ByteBuffer[] scan(IndexReader reader, String field, boolean keep, boolean positions) throws IOException {
    int n = reader.maxDoc();
    int[] distinct = new int[n];
    int[] tokens = new int[n];
    Bits live = MultiBits.getLiveDocs(reader);
    byte[] text = new byte[1 << 16];
    int[] sizes = new int[1 << 12];
    int[] df = new int[1 << 12];
    long[] cf = new long[1 << 12];
    int[] ends = new int[1 << 12];
    int used = 0;
    int count = 0;
    int kept = 0;
    int seen = 0;
    Terms terms = MultiTerms.getTerms(reader, field);
    boolean some = keep && terms != null;
    int[] docs = new int[some ? Math.toIntExact(terms.getSumDocFreq()) : 0];
    int[] freqs = new int[docs.length];
    int[] places = new int[some && positions ? Math.toIntExact(terms.getSumTotalTermFreq()) : 0];
    if (terms != null) {
      TermsEnum walk = terms.iterator();
      PostingsEnum postings = null;
      for (BytesRef term = walk.next(); term != null; term = walk.next()) {
        if (count == sizes.length) {
          ends = Arrays.copyOf(ends, 2 * count);
          sizes = Arrays.copyOf(sizes, 2 * count);
          df = Arrays.copyOf(df, 2 * count);
          cf = Arrays.copyOf(cf, 2 * count);
        }
        if (used + term.length > text.length) {
          text = Arrays.copyOf(text, Math.max(2 * text.length, used + term.length));
        }
        System.arraycopy(term.bytes, term.offset, text, used, term.length);
        used += term.length;
        sizes[count] = term.length;
        df[count] = walk.docFreq();
        cf[count] = walk.totalTermFreq();
        postings = walk.postings(postings, keep && positions ? PostingsEnum.POSITIONS : PostingsEnum.FREQS);
        for (int doc = postings.nextDoc(); doc != PostingsEnum.NO_MORE_DOCS; doc = postings.nextDoc()) {
          if (live == null || live.get(doc)) {
            int freq = postings.freq();
            distinct[doc]++;
            tokens[doc] += freq;
            if (keep) {
              docs[kept] = doc;
              freqs[kept++] = freq;
              for (int i = 0; positions && i < freq; i++) {
                places[seen++] = postings.nextPosition();
              }
            }
          }
        }
        ends[count++] = kept;
      }
    }
    ByteBuffer frequencies = direct(8L * count);
    frequencies.asLongBuffer().put(cf, 0, count);
    byte[] norm = new byte[n];
    NumericDocValues norms = MultiDocValues.getNormValues(reader, field);
    if (norms != null) {
      for (int doc = norms.nextDoc(); doc != NumericDocValues.NO_MORE_DOCS; doc = norms.nextDoc()) {
        norm[doc] = (byte) norms.longValue();
      }
    }
    byte[] alive = new byte[n];
    for (int doc = 0; doc < n; doc++) {
      alive[doc] = (byte) (live == null || live.get(doc) ? 1 : 0);
    }
    ByteBuffer[] scanned = {
      of(text, used), of(sizes, count), of(df, count), frequencies, of(distinct, n), of(tokens, n), of(norm, n), of(alive, n)
    };
    if (!keep) {
      return scanned;
    }
    ByteBuffer[] all = Arrays.copyOf(scanned, scanned.length + 3);
    System.arraycopy(transposed(docs, freqs, places, ends, count, distinct, tokens), 0, all, scanned.length, 3);
    return all;
  }

  /** Postings in order of term, the last of each in `ends`, as rows of documents: what `rows` returns. */
  private static ByteBuffer[] transposed(int[] docs, int[] freqs, int[] places, int[] ends, int terms, int[] distinct, int[] tokens) {
    int[] next = starts(distinct);
    int[] place = starts(tokens);
    int total = next[next.length - 1];
    ByteBuffer[] rows = {direct(4L * total), direct(4L * total), direct(places.length == 0 ? 0 : 4L * place[place.length - 1])};
    IntBuffer ids = rows[0].asIntBuffer();
    IntBuffer counts = rows[1].asIntBuffer();
    IntBuffer positions = rows[2].asIntBuffer();
    int posting = 0;
    int seen = 0;
    for (int term = 0; term < terms; term++) {
      for (; posting < ends[term]; posting++) {
        int doc = docs[posting];
        int at = next[doc]++;
        int freq = freqs[posting];
        ids.put(at, term);
        counts.put(at, freq);
        if (positions.limit() > 0) {
          int here = place[doc];
          place[doc] = here + freq;
          for (int i = 0; i < freq; i++) {
            positions.put(here++, places[seen++]);
          }
        }
      }
    }
    return rows;
  }

  private static int[] starts(int[] sizes) {
    int[] starts = new int[sizes.length + 1];
    for (int i = 0; i < sizes.length; i++) {
      starts[i + 1] = Math.addExact(starts[i], sizes[i]);
    }
    return starts;
  }

  /** The offset of each row, from the sizes of the rows (int32 each); the last element is the total. */
  private static int[] starts(byte[] sizeBytes) {
    IntBuffer sizes = ByteBuffer.wrap(sizeBytes).order(ByteOrder.nativeOrder()).asIntBuffer();
    int[] starts = new int[sizes.remaining() + 1];
    for (int i = 1; i < starts.length; i++) {
      starts[i] = Math.addExact(starts[i - 1], sizes.get());
    }
    return starts;
  }

  /**
   * The rows of documents from..to-1, sorted by term number: term numbers and frequencies (int32 each), then token positions
   * grouped by posting (int32; empty unless requested). One pass over the terms fills all rows, because each row grows in order of
   * term, and its tokens with it; this needs the numbers of distinct terms and tokens (int32) of the rows.
   */
  public static ByteBuffer[] rows(
      IndexReader reader, String field, int from, int to, byte[] distinct, byte[] tokens, boolean positions) throws IOException {
    int[] next = starts(distinct);
    int[] place = positions ? starts(tokens) : new int[1];
    int total = next[next.length - 1];
    ByteBuffer ids = direct(4L * total);
    ByteBuffer freqs = direct(4L * total);
    ByteBuffer places = direct(4L * place[place.length - 1]);
    Bits live = MultiBits.getLiveDocs(reader);
    Terms terms = total == 0 ? null : MultiTerms.getTerms(reader, field);
    if (terms != null) {
      TermsEnum walk = terms.iterator();
      PostingsEnum postings = null;
      for (int term = 0; walk.next() != null; term++) {
        postings = walk.postings(postings, positions ? PostingsEnum.POSITIONS : PostingsEnum.FREQS);
        for (int doc = from == 0 ? postings.nextDoc() : postings.advance(from); doc < to; doc = postings.nextDoc()) {
          if (live == null || live.get(doc)) {
            int freq = postings.freq();
            int at = next[doc - from]++;
            ids.putInt(4 * at, term);
            freqs.putInt(4 * at, freq);
            if (positions) {
              int here = place[doc - from];
              place[doc - from] = here + freq;
              for (int i = 0; i < freq; i++) {
                places.putInt(4 * here++, postings.nextPosition());
              }
            }
          }
        }
      }
    }
    return new ByteBuffer[] {ids, freqs, places};
  }

  /** External identifiers of documents from..to-1: UTF-8 bytes and byte lengths (int32). */
  public static ByteBuffer[] docids(IndexReader reader, String field, int from, int to) throws IOException {
    byte[] text = new byte[1 << 16];
    int used = 0;
    int[] sizes = new int[to - from];
    for (LeafReaderContext leaf : reader.leaves()) {
      int base = leaf.docBase;
      int first = Math.max(from, base);
      int end = Math.min(to, base + leaf.reader().maxDoc());
      if (first >= end) {
        continue;
      }
      BinaryDocValues values = leaf.reader().getBinaryDocValues(field);
      for (int doc = first; doc < end; doc++) {
        BytesRef id;
        if (values != null && values.advanceExact(doc - base)) {
          id = values.binaryValue();
        } else {
          String stored = leaf.reader().storedFields().document(doc - base, Set.of(field)).get(field);
          id = new BytesRef(stored == null ? "" : stored);
        }
        if (used + id.length > text.length) {
          text = Arrays.copyOf(text, Math.max(2 * text.length, used + id.length));
        }
        System.arraycopy(id.bytes, id.offset, text, used, id.length);
        used += id.length;
        sizes[doc - from] = id.length;
      }
    }
    return new ByteBuffer[] {of(text, used), of(sizes, sizes.length)};
  }

  private static List<String> tokens(Analyzer analyzer, String field, String text) throws IOException {
    List<String> found = new ArrayList<>();
    try (TokenStream stream = analyzer.tokenStream(field, text)) {
      CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
      stream.reset();
      while (stream.incrementToken()) {
        if (term.length() > 0) {
          found.add(term.toString());
        }
      }
      stream.end();
    }
    return found;
  }

  /**
   * Analyses texts, one per line, into `out`: one line per text, tabs between tokens. Returns the size of the answer; `out` is left
   * unchanged where it is smaller.
   */
  public static long analyze(Analyzer analyzer, String field, byte[] texts, ByteBuffer out) throws IOException {
    StringBuilder lines = new StringBuilder();
    for (String text : new String(texts, StandardCharsets.UTF_8).split("\n", -1)) {
      lines.append(String.join("\t", tokens(analyzer, field, text))).append('\n');
    }
    byte[] bytes = lines.toString().getBytes(StandardCharsets.UTF_8);
    if (bytes.length <= out.capacity()) {
      out.clear();
      out.put(bytes);
    }
    return bytes.length;
  }

  private static Query query(String field, String line) {
    BooleanQuery.Builder builder = new BooleanQuery.Builder();
    if (!line.isEmpty()) {
      String[] parts = line.split("\t", -1);
      for (int i = 0; i < parts.length; i += 2) {
        Query term = new TermQuery(new Term(field, parts[i]));
        builder.add(new BoostQuery(term, Float.parseFloat(parts[i + 1])), BooleanClause.Occur.SHOULD);
      }
    }
    return builder.build();
  }

  private interface Work<T> {
    T on(String line) throws IOException;
  }

  private static <T> List<T> each(byte[] lines, int threads, Work<T> work) throws IOException {
    String[] all = new String(lines, StandardCharsets.UTF_8).split("\n", -1);
    List<T> results = new ArrayList<>(all.length);
    if (threads <= 1 || all.length == 1) {
      for (String line : all) {
        results.add(work.on(line));
      }
      return results;
    }
    ExecutorService pool =
        Executors.newFixedThreadPool(
            Math.min(threads, all.length),
            task -> {
              Thread thread = new Thread(task, "kernelsearch");
              thread.setDaemon(true);
              return thread;
            });
    try {
      List<Future<T>> futures = new ArrayList<>(all.length);
      for (String line : all) {
        futures.add(pool.submit(() -> work.on(line)));
      }
      for (Future<T> future : futures) {
        results.add(future.get());
      }
    } catch (ExecutionException | InterruptedException problem) {
      throw new IOException(problem.getCause() == null ? problem : problem.getCause());
    } finally {
      pool.shutdownNow();
    }
    return results;
  }

  /** A hit's score, the first sort key; setting it through Lucene would score every hit a second time. */
  private static float score(ScoreDoc hit) {
    return (Float) ((FieldDoc) hit).fields[0];
  }

  /**
   * Ranked lists of weighted queries, one per line as term TAB weight TAB term TAB weight: list lengths, then Lucene's document numbers
   * (int32) of all lists, then their raw scores (float32). Returns the size of the answer; `out` is left unchanged where it is smaller.
   */
  public static long search(IndexSearcher searcher, String field, byte[] queries, int hits, Sort order, int threads, ByteBuffer out)
      throws IOException {
    int depth = Math.max(1, Math.min(hits, searcher.getIndexReader().maxDoc()));
    List<ScoreDoc[]> lists =
        each(queries, threads, line -> searcher.search(query(field, line), depth, order, false).scoreDocs);
    long total = 0;
    for (ScoreDoc[] list : lists) {
      total += list.length;
    }
    long size = 4L * lists.size() + 8L * total;
    if (size <= out.capacity()) {
      out.clear();
      for (ScoreDoc[] list : lists) {
        out.putInt(list.length);
      }
      for (ScoreDoc[] list : lists) {
        for (ScoreDoc hit : list) {
          out.putInt(hit.doc);
        }
      }
      for (ScoreDoc[] list : lists) {
        for (ScoreDoc hit : list) {
          out.putFloat(score(hit));
        }
      }
    }
    return size;
  }

  /**
   * Queries expanded by one of Anserini's feedback rerankers: one line per query, term TAB weight. A line of input is the
   * weighted query, an unprintable separator, then the text that the reranker analyses itself. Anserini is called by reflection: its
   * classes need a newer compiler than Lucene's. One hit of the reranker's own second search is enough, since only the query is used.
   */
  public static ByteBuffer expand(
      IndexSearcher searcher, Object reranker, Analyzer analyzer, String field, byte[] queries, int depth, Sort order, int threads)
      throws IOException, ReflectiveOperationException {
    int hits = Math.max(1, Math.min(depth, searcher.getIndexReader().maxDoc()));
    Class<?> docsClass = Class.forName("io.anserini.search.ScoredDocs");
    Class<?> argsClass = Class.forName("io.anserini.search.SearchCollection$Args");
    Class<?> contextClass = Class.forName("io.anserini.rerank.RerankerContext");
    Constructor<?> newContext = contextClass.getConstructors()[0];
    Method rerank = Class.forName("io.anserini.rerank.Reranker").getMethod("rerank", docsClass, contextClass);
    Object args = argsClass.getConstructor().newInstance();
    argsClass.getField("hits").setInt(args, 1);
    if (order.getSort()[1] == SortField.FIELD_DOC) { // only indexes of Lucene 8, which a release without this field can't read
      argsClass.getField("arbitraryScoreTieBreak").setBoolean(args, true);
    }
    List<String> lines =
        each(
            queries,
            threads,
            line -> {
              int cut = line.indexOf('\u001f');
              String text = line.substring(cut + 1);
              Query query = query(field, line.substring(0, cut));
              ScoreDoc[] found = searcher.search(query, hits, order, false).scoreDocs;
              int[] numbers = new int[found.length];
              float[] scores = new float[found.length];
              for (int i = 0; i < found.length; i++) {
                numbers[i] = found[i].doc;
                scores[i] = score(found[i]);
              }
              Object weights;
              String printed;
              startCapture();
              try {
                Object docs = docsClass.getConstructor().newInstance();
                docsClass.getField("docids").set(docs, new String[found.length]);
                docsClass.getField("lucene_documents").set(docs, new Document[found.length]);
                docsClass.getField("lucene_docids").set(docs, numbers);
                docsClass.getField("scores").set(docs, scores);
                List<String> terms = tokens(analyzer, field, text);
                Object context = newContext.newInstance(searcher, "", query, null, text, terms, null, args);
                if (reranker.getClass().getSimpleName().equals("BM25PrfReranker")) {
                  weights = relevanceWeights(reranker, terms, docs, searcher.getIndexReader());
                } else {
                  rerank.invoke(reranker, docs, context);
                  weights = contextClass.getField("feedbackTerms").get(context);
                }
              } catch (ReflectiveOperationException problem) {
                throw new IOException(problem.getCause() == null ? problem : problem.getCause());
              } finally {
                printed = endCapture();
              }
              if (!printed.isEmpty()) {
                throw new IOException(printed);
              }
              StringBuilder out = new StringBuilder();
              for (Map.Entry<?, ?> entry : new TreeMap<>(weights == null ? Map.of() : (Map<?, ?>) weights).entrySet()) {
                out.append(out.length() == 0 ? "" : "\t").append(entry.getKey()).append('\t').append(entry.getValue());
              }
              return out.toString();
            });
    byte[] bytes = String.join("\n", lines).getBytes(StandardCharsets.UTF_8);
    return of(bytes, bytes.length);
  }

  /** The query that Anserini's BM25PRF makes, which unlike the other rerankers it keeps to itself. */
  private static Map<String, Float> relevanceWeights(Object reranker, List<String> terms, Object docs, IndexReader reader)
      throws ReflectiveOperationException {
    Method expand = reranker.getClass().getDeclaredMethod("expandQuery", List.class, docs.getClass(), IndexReader.class, boolean.class);
    expand.setAccessible(true);
    Object features = expand.invoke(reranker, terms, docs, reader, false);
    Method asQuery = features.getClass().getDeclaredMethod("toQuery");
    asQuery.setAccessible(true);
    Map<String, Float> weights = new HashMap<>();
    ((Query) asQuery.invoke(features))
        .visit(
            new QueryVisitor() {
              private float boost;

              @Override
              public QueryVisitor getSubVisitor(BooleanClause.Occur occur, Query parent) {
                if (parent instanceof BoostQuery) {
                  boost = ((BoostQuery) parent).getBoost();
                }
                return this;
              }

              @Override
              public void consumeTerms(Query query, Term... found) {
                weights.put(found[0].text(), boost);
              }
            });
    return weights;
  }

  /** A stored field of each document number (int32), in order: UTF-8 bytes and byte lengths, -1 where the field is not stored. */
  public static ByteBuffer[] stored(IndexReader reader, String field, byte[] documents) throws IOException {
    IntBuffer docs = ByteBuffer.wrap(documents).order(ByteOrder.nativeOrder()).asIntBuffer();
    ByteBuffer sizes = direct(documents.length);
    byte[] text = new byte[1 << 16];
    int used = 0;
    StoredFields fields = reader.storedFields();
    while (docs.hasRemaining()) {
      String value = fields.document(docs.get(), Set.of(field)).get(field);
      byte[] bytes = value == null ? new byte[0] : value.getBytes(StandardCharsets.UTF_8);
      if (used + bytes.length > text.length) {
        text = Arrays.copyOf(text, Math.max(2 * text.length, used + bytes.length));
      }
      System.arraycopy(bytes, 0, text, used, bytes.length);
      used += bytes.length;
      sizes.putInt(value == null ? -1 : bytes.length);
    }
    return new ByteBuffer[] {of(text, used), sizes};
  }
}
